"""As much of PromQL as it takes to say which metrics and labels an expression names."""

import re
from dataclasses import dataclass

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_DURATION = re.compile(r"\[[^]]*\]")
_SELECTOR = re.compile(r"(?P<metric>[a-zA-Z_:][\w:]*)?\s*\{(?P<matchers>[^}]*)\}")
_MATCHER = re.compile(r'(?P<label>\w+)\s*(?:=~|!~|!=|=)\s*(?P<value>"(?:[^"\\]|\\.)*")')
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\((?P<labels>[^)]*)\)")
_WORD = re.compile(r"[a-zA-Z_:][\w:]*")
_WORDS_OF_THE_LANGUAGE = frozenset(
    {
        *("and", "by", "group_left", "group_right", "ignoring", "on", "or", "unless", "without"),
        *("count", "group", "max", "min", "sum", "topk"),
        *("histogram_quantile", "increase", "last_over_time", "max_over_time", "min_over_time", "rate"),
    }
)


@dataclass(frozen=True, slots=True)
class Selector:
    """Series that an expression asks for: a metric, or None where the name itself is matched, and labels by value."""

    metric: str | None
    matchers: dict[str, str]


def selectors(promql: str) -> list[Selector]:
    """Return each selector with matchers, and each bare metric as one without."""
    braced = [
        Selector(
            found["metric"], {one["label"]: one["value"].strip('"') for one in _MATCHER.finditer(found["matchers"])}
        )
        for found in _SELECTOR.finditer(promql)
    ]
    rest = _STRING.sub(" ", _DURATION.sub(" ", _GROUPING.sub(" ", _SELECTOR.sub(" ", promql))))
    return braced + [Selector(word, {}) for word in _WORD.findall(rest) if word not in _WORDS_OF_THE_LANGUAGE]


def grouping_labels(promql: str) -> set[str]:
    """Return the labels that series are aggregated or joined by."""
    return {label for found in _GROUPING.finditer(promql) for label in _WORD.findall(found["labels"])}
