"""Plans of goals, made by models or by rule, and checked before they are applied."""

import re
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from headway.actions.goals.goals import format_key
from headway.actions.turns.plan import to_context
from headway.agents.instructions.prompts import SUBMIT_PLAN, SUBMIT_REPLAN
from headway.agents.instructions.roles import Roles
from headway.agents.loop.structured import Form, Question
from headway.agents.tools.arguments import CHECKS_HINT
from headway.autonomy import prompts
from headway.autonomy.prompts import Workforce
from headway.ledger import text
from headway.ledger.cycles import find_cycle
from headway.ledger.errors import Invalid
from headway.ledger.goal import (
    OPEN_STATUSES,
    TITLE_LIMIT,
    Experience,
    Goal,
    PlannedStep,
    SubGoal,
    SubGoalMode,
    normalize_description,
)
from headway.ledger.items.request_items import changes_file, split_request
from headway.ledger.money import MOST_DOLLARS, NANOS_PER_DOLLAR
from headway.ledger.parsing.checks import write_checks

MAX_SUB_GOALS: Final = 100
DESCRIPTION_LIMIT: Final = 4_000
EXISTING_ID: Final = re.compile(r"#[0-9]+")
DEFAULT_OUTCOME: Final = "What the description asks for is done."


def to_key(value: Any) -> Any:
    """Accept ids as numbers or text, because models send both."""
    return str(value).strip() if isinstance(value, int | str) else value


def clamp(value: Any, least: float, most: float) -> Any:
    """Bring a number into its range: a model that rates out of 100 has still said what comes first."""
    return min(max(value, least), most) if isinstance(value, int | float) and value == value else value


def to_title(value: Any) -> Any:
    """Make a title one line and shorten it after a word: a plan is not asked for again because of a long title."""
    return text.cut_at_word(" ".join(text.to_one_line(value).split()), TITLE_LIMIT) if isinstance(value, str) else value


Key = Annotated[str, BeforeValidator(to_key), Field(min_length=1, max_length=60)]
Reference = Annotated[str, BeforeValidator(to_key)]


class PlannedSubGoal(Form):
    id: Annotated[Key, Field(description="A short name; #12 to keep an existing sub-goal")] = ""
    title: Annotated[
        str,
        BeforeValidator(to_title),
        Field(
            description=f"What people see in lists: a few words, at most {TITLE_LIMIT} characters", examples=["Draft the report"]
        ),
    ] = ""
    description: Annotated[str, Field(description="What to do, self-contained: its agent may see nothing else")] = ""
    expected_outcome: Annotated[str, Field(description="What exists when it is done, so that anyone can check")] = ""
    depends_on: Annotated[
        list[Reference] | None, Field(description="ids whose outcomes it needs; without ids, positions from 1")
    ] = None
    priority: Annotated[
        int, Field(ge=1, le=10, description="10 is most urgent"), BeforeValidator(partial(clamp, least=1, most=10))
    ] = 5
    expected_value: Annotated[
        float, Field(ge=0, le=1, description="How much it advances the goal"), BeforeValidator(partial(clamp, least=0, most=1))
    ] = 0.5
    kind: Annotated[str, Field(max_length=60, description="Type of work: research, code, write, check …")] = "work"
    mode: SubGoalMode = "inline"
    role: Annotated[str, Field(description="Role of the sub-agent, in mode agent")] = "researcher"
    checks: Annotated[list[dict[str, Any]] | None, Field(description=CHECKS_HINT)] = None
    cost_limit_usd: Annotated[float, Field(ge=0, le=MOST_DOLLARS, allow_inf_nan=False, description="0: no limit")] = 0

    @model_validator(mode="before")
    @classmethod
    def describe_by_title(cls, data: Any) -> Any:
        """Take the title of a new sub-goal as its description, if a model gave no other. A kept one has its description already."""
        if not isinstance(data, dict) or data.get("description") or EXISTING_ID.fullmatch(str(data.get("id", ""))):
            return data
        return {**data, "description": data.get("title") or ""}


class NewSubGoal(PlannedSubGoal):
    """A sub-goal of a first plan, where none can be kept. Its schema says that it needs a description."""

    model_config = ConfigDict(json_schema_extra={"required": ["description"]})


def name_steps(steps: Sequence[PlannedSubGoal]) -> Sequence[PlannedSubGoal]:
    """Use the position as id for each sub-goal without one, counted from 1, or from 0 if a dependency names 0.

    Dependencies are converted to ids, including ones given as a full description.
    """
    from_zero = any("0" in (step.depends_on or ()) for step in steps) and all(step.id != "0" for step in steps)
    ids = [step.id or str(number) for number, step in enumerate(steps, 0 if from_zero else 1)]
    ids_by_description = {
        normalize_description(step.description): key for key, step in zip(ids, steps, strict=True) if step.description
    }
    ids_by_reference = {**ids_by_description, **{key: key for key in ids}}

    def references(step: PlannedSubGoal) -> list[str] | None:
        return step.depends_on and [
            ids_by_reference.get(reference) or ids_by_reference.get(normalize_description(reference), reference)
            for reference in step.depends_on
        ]

    return [step.model_copy(update={"id": key, "depends_on": references(step)}) for key, step in zip(ids, steps, strict=True)]


NAME_STEPS: Final = AfterValidator(name_steps)


class PlanForm(Form):
    sub_goals: Annotated[Sequence[PlannedSubGoal], NAME_STEPS]

    @model_validator(mode="before")
    @classmethod
    def take_bare_list(cls, data: Any) -> Any:
        return {"sub_goals": data} if isinstance(data, list) else data


class FirstPlanForm(PlanForm):
    sub_goals: Annotated[Sequence[NewSubGoal], NAME_STEPS]


class ReplanForm(PlanForm):
    sub_goals: Annotated[Sequence[PlannedSubGoal], NAME_STEPS] = []
    reason: Annotated[str, Field(description="What changes, in one sentence")] = ""
    new_goal: Annotated[str, Field(description="New wording, only if the goal itself must change")] = ""
    give_up: Annotated[str, Field(description="Why, only if the goal cannot be reached")] = ""


def plan_by_rule(goal: Goal) -> list[PlannedStep]:
    """Plan a goal whose description names its sub-goals, without a model; nothing if it does not."""
    introduction, items = split_request(goal.description)
    texts = items or ((goal.description,) if changes_file(goal.description) else ())
    contexts = [to_context(introduction, text) for text in texts] if items else [""]
    steps = [
        PlannedSubGoal(title=text, description=f"{context}:\n{text}" if context else text)
        for context, text in zip(contexts, texts, strict=True)
    ]
    return to_planned_steps(PlanForm(sub_goals=steps), ())


def build_plan_question(goal: Goal, workforce: Workforce, experience: Sequence[Experience]) -> Question[FirstPlanForm]:
    def check(form: FirstPlanForm) -> None:
        check_plan(form, (), workforce.roles)

    text = prompts.render_planning(goal, workforce, experience)
    return Question("strong", prompts.PLANNER, text, {"goal": goal.description}, SUBMIT_PLAN, FirstPlanForm, check)


def build_replan_question(
    goal: Goal, workforce: Workforce, experience: Sequence[Experience], known: Sequence[SubGoal], why: str
) -> Question[ReplanForm]:
    def check(form: ReplanForm) -> None:
        if not form.give_up.strip():
            check_plan(form, known, workforce.roles)

    text = prompts.render_replanning(goal, workforce, experience, known, why)
    return Question("strong", prompts.REPLANNER, text, prompts.to_facts(known), SUBMIT_REPLAN, ReplanForm, check)


def check_plan(form: PlanForm, known: Sequence[SubGoal], roles: Roles) -> None:
    """Reject a plan that could never work, before it is applied."""
    steps = form.sub_goals
    if not steps and not any(sub_goal.status == "completed" for sub_goal in known):
        raise Invalid("The plan is empty: name at least one sub-goal.")
    if len(steps) > MAX_SUB_GOALS:
        raise Invalid(f"The plan has {len(steps)} sub-goals; at most {MAX_SUB_GOALS} are allowed. Make them larger.")
    by_key = {format_key(sub_goal): sub_goal for sub_goal in known}
    for step in steps:
        check_step(step, by_key, roles)
    check_unique("id", (step.id for step in steps))
    check_unique("description", (normalize_description(get_description(step, by_key)) for step in steps))
    check_dependencies(steps, by_key)


def check_step(step: PlannedSubGoal, by_key: dict[str, SubGoal], roles: Roles) -> None:
    if EXISTING_ID.fullmatch(step.id):
        if step.id not in by_key or by_key[step.id].status not in OPEN_STATUSES:
            raise Invalid(f"{step.id} is not an open sub-goal: leave it out, or give a new sub-goal another id.")
        return
    if not text.check_text(step.description, "description", DESCRIPTION_LIMIT).strip():
        raise Invalid(f"description of {text.to_one_line(step.id)} is missing.")
    text.check_text(step.title, "title")
    text.check_text(step.expected_outcome, "expected_outcome", DESCRIPTION_LIMIT)
    text.check_text(step.kind, "kind")
    write_checks(step.checks, "agent")
    if step.mode == "agent":
        roles.find(step.role)


def get_description(step: PlannedSubGoal, by_key: dict[str, SubGoal]) -> str:
    return by_key[step.id].description if step.id in by_key else step.description


def check_unique(label: str, values: Iterable[str]) -> None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise Invalid(f"The {label} {text.to_one_line(value)[:100]!r} occurs twice.")
        seen.add(value)


def check_dependencies(steps: Sequence[PlannedSubGoal], by_key: dict[str, SubGoal]) -> None:
    index_of = {step.id: index for index, step in enumerate(steps)}
    for step in steps:
        for key in list_dependencies(step, by_key):
            if key in index_of:
                continue
            if key not in by_key:
                raise Invalid(f"{text.to_one_line(step.id)} depends on {text.to_one_line(key)[:60]!r}, which is unknown.")
            if by_key[key].status != "completed":
                raise Invalid(f"{text.to_one_line(step.id)} depends on {key}, which is {by_key[key].status} and not in the plan.")
    edges = {index_of[step.id]: [index_of[key] for key in list_dependencies(step, by_key) if key in index_of] for step in steps}
    if cycle := find_cycle(edges):
        path = " → ".join(text.to_one_line(steps[index].id) for index in [*cycle[:20], cycle[0]])
        raise Invalid(f"These depend on each other, so none could start: {path}.")


def list_dependencies(step: PlannedSubGoal, by_key: dict[str, SubGoal]) -> list[str]:
    """Return a sub-goal's dependencies. One that is kept from the old plan keeps its own, unless the plan names others."""
    if step.depends_on is not None:
        return list(dict.fromkeys(step.depends_on))
    return [f"#{dependency}" for dependency in by_key[step.id].depends_on] if step.id in by_key else []


def to_planned_steps(form: PlanForm, known: Sequence[SubGoal]) -> list[PlannedStep]:
    by_key = {format_key(sub_goal): sub_goal for sub_goal in known}
    return [
        PlannedStep(
            key=step.id,
            description=step.description.strip(),
            expected_outcome=step.expected_outcome.strip() or DEFAULT_OUTCOME,
            kind=text.to_one_line(step.kind.strip().lower()) or "work",
            mode=step.mode,
            role=step.role if step.mode == "agent" else "index",
            urgency=step.priority,
            expected_value=step.expected_value,
            cost_limit=int(step.cost_limit_usd * NANOS_PER_DOLLAR),
            depends_on=tuple(list_dependencies(step, by_key)),
            checks=write_checks(step.checks, "agent"),
            title=step.title,
        )
        for step in form.sub_goals
    ]
