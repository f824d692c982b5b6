"""The configuration: one YAML file, checked as a whole before anything starts."""

from sandgauge_poller.config.deployment import Deployment
from sandgauge_poller.config.errors import ConfigError, ConfigErrors, ConfigWarning, InvalidValueError, render
from sandgauge_poller.config.kafka import Kafka
from sandgauge_poller.config.loading import load_config
from sandgauge_poller.config.locate import find_config, smallest_config
from sandgauge_poller.config.model import (
    Allocation,
    Auth,
    Config,
    Export,
    Ingest,
    Logs,
    MetricIds,
    RetryOnFailure,
    Sampling,
    SendingQueue,
    State,
    Status,
    Tracking,
)
from sandgauge_poller.config.printing import as_yaml
from sandgauge_poller.config.shard import Shard, parse_shard
from sandgauge_poller.config.tls import ClientTls, MutualTls, ServerTls
from sandgauge_poller.config.units import format_duration
from sandgauge_poller.config.urls import ListenAddress, scope_identity
from sandgauge_poller.config.usage import Usage
from sandgauge_poller.config.values import ProxyUse

__all__ = [
    "Allocation",
    "Auth",
    "ClientTls",
    "Config",
    "ConfigError",
    "ConfigErrors",
    "ConfigWarning",
    "Deployment",
    "Export",
    "Ingest",
    "InvalidValueError",
    "Kafka",
    "ListenAddress",
    "Logs",
    "MetricIds",
    "MutualTls",
    "ProxyUse",
    "RetryOnFailure",
    "Sampling",
    "SendingQueue",
    "ServerTls",
    "Shard",
    "State",
    "Status",
    "Tracking",
    "Usage",
    "as_yaml",
    "find_config",
    "format_duration",
    "load_config",
    "parse_shard",
    "render",
    "scope_identity",
    "smallest_config",
]
