"""The configuration: one YAML file, checked as a whole before anything starts."""

from .urls import scope_identity

__all__ = ["scope_identity"]
