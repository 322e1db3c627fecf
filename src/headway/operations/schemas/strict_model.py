"""The base classes of the schemas of requests."""

from typing import Annotated, Any, Optional

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo


def to_whole_number(number: Any) -> Any:
    """Convert 3.0 to 3. JSON does not distinguish integers from floats."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


class NullIsAbsent(BaseModel):
    """A body in which null for an optional field means that the field is absent. The OpenAPI document shows such fields as
    nullable.

    The fields themselves are made nullable. A validator in front of the model would turn JSON arrays into Python lists, which
    strict types do not accept as tuples. A field whose default is null already defines what null means.
    """

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        for name in cls.__annotations__:
            field = cls.model_fields.get(name)
            if field and not field.is_required() and field.default is not None:
                make_nullable(field)
        cls.model_rebuild(force=True)


def make_nullable(field: FieldInfo) -> None:
    """Make a field accept null. Its constraints move inside, so that they apply to the other values only."""
    annotation = (field.annotation, *field.metadata, Field(json_schema_extra=field.json_schema_extra))
    field.annotation = Optional[Annotated[annotation]]  # type: ignore[assignment]  # noqa: UP045  the type is built at run time
    field.metadata = [AfterValidator(lambda value: field.get_default() if value is None else value)]
    field.json_schema_extra = None


class StrictModel(NullIsAbsent):
    """A body with strict types and no unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
