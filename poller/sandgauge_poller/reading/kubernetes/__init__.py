"""Usage of sandboxes that are pods, from a cluster's metrics API (metrics.k8s.io)."""
