"""What every part of the configuration is made of."""

from typing import Annotated

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
