"""OpenSandbox: control plane, endpoints, inspect texts and execd."""
