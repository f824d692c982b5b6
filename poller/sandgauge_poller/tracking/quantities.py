"""The quantities that readings tell: the metric of each, and what the records call it."""

from sandgauge_schemas import names

EXECD_QUANTITIES = {
    names.METRIC_GYM_SANDBOX_CPU_COUNT: "cpu_count",
    names.METRIC_GYM_SANDBOX_CPU_USED_PERCENTAGE: "cpu_used_percentage",
    names.METRIC_GYM_SANDBOX_MEMORY_TOTAL_MIB: "memory_total_mib",
    names.METRIC_GYM_SANDBOX_MEMORY_USED_MIB: "memory_used_mib",
}
"""Those of execd, in the order in which a tally keeps them."""

USAGE_QUANTITIES = {
    names.METRIC_GYM_SANDBOX_CPU_USED_CORES: "cpu_used_cores",
    names.METRIC_GYM_SANDBOX_MEMORY_WORKING_SET_MIB: "memory_working_set_mib",
}
"""Those of a usage source that a summary condenses."""
