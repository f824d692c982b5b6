"""What every part of the configuration is made of."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

EMPTY_WHEN_NONE = BeforeValidator(lambda value: () if value is None else value)
PositiveInt = Annotated[int, Field(gt=0)]


class Section(BaseModel):
    """Keys that stand together; a section with nothing beneath it is all defaults."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _defaults_when_empty(cls, value: object) -> object:
        return {} if value is None else value


def mappings(entries: object) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield what in a list of the file has keys, with its place there; nothing where it is no list."""
    if isinstance(entries, list):
        yield from ((index, entry) for index, entry in enumerate(entries) if isinstance(entry, dict))
