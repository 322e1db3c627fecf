"""Every setting, declared once: its name, the type of its keyword argument, its default, its parser and its meaning.

Loading, the keyword arguments of `Headway.open`, `headway settings`, GET /v1/settings and the tables of docs/settings.md derive
from these classes. People read them in this order and in these groups.
"""

import os
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, NamedTuple, TypedDict

from headway.ledger.limits import (
    DISCOVERY_POLICIES,
    MEBIBYTE,
    SANDBOX_MODES,
    DiscoveryPolicy,
    GoalLimits,
    Limits,
    Sandbox,
    SandboxMode,
)
from headway.ledger.tenancy import Quotas, parse_quotas, parse_retention
from headway.ledger.tiers import DRIVES, MAX_TOKENS, MIN_CONTEXT_TOKENS, MIN_OUTPUT_TOKENS, REHEARSAL_MODEL, Drive
from headway.settings.parsing import (
    Parser,
    amount,
    count,
    count_channels,
    hide,
    optional,
    parse_absolute_paths,
    parse_bootstrap_token,
    parse_channels,
    parse_dispatch,
    parse_hosts,
    parse_list,
    parse_path,
    parse_port,
    parse_postgres_url,
    parse_public_url,
    parse_text,
    redact_database_url,
    word,
)

PREFIX: Final = "HEADWAY_"
LIMITS, GOAL_LIMITS, SANDBOX = Limits(), GoalLimits(), Sandbox()

# A setting that is not given is None. The other types are of values that make sense; their text is parsed.
Text = str | None
FilePath = str | os.PathLike[str] | None
Number = float | None
Count = int | None


class Setting(NamedTuple):
    default: str | float  # $HEADWAY_HOME and the like stand for settings above it
    parse: Parser
    sentence: str
    show: Callable[[Any], str] | None = None  # how its value is displayed, by default as it was given


class LocationSettings(TypedDict, total=False):
    home: Annotated[
        FilePath,
        Setting(
            ".headway",
            parse_path,
            "The folder of the database, the task files, and your own tools, roles, skills, models and prices",
            str,
        ),
    ]
    database_url: Annotated[
        Text,
        Setting(
            "sqlite:///$HEADWAY_HOME/headway.db",
            parse_text,
            "The database: sqlite:///PATH, or postgresql://USER:PASSWORD@HOST/NAME",
            redact_database_url,
        ),
    ]
    database_direct_url: Annotated[
        Text,
        Setting(
            "",
            parse_postgres_url,
            "The address of the Postgres server itself, if the other URL leads to a pooler",
            redact_database_url,
        ),
    ]
    dispatch: Annotated[
        Text,
        Setting(
            "",
            parse_dispatch,
            "The external engine that dispatches the jobs: restate://…; not set: Headway does it",
            redact_database_url,
        ),
    ]
    directory_url: Annotated[
        Text,
        Setting(
            "",
            parse_postgres_url,
            "The Postgres database that knows all cells and the cell of each tenant; not set: the database itself",
            redact_database_url,
        ),
    ]
    workspace: Annotated[
        FilePath, Setting("$HEADWAY_HOME/workspace", parse_path, "The files of agents, in one folder per tenant", str)
    ]
    host: Annotated[
        Text,
        Setting(
            "127.0.0.1",
            parse_text,
            "The address that the server listens on. Any other than loopback is refused while there are no tokens",
        ),
    ]
    port: Annotated[Count, Setting(8484, parse_port, "The port that the server listens on; 0 picks a free one", str)]
    bootstrap_token: Annotated[
        Text,
        Setting(
            "",
            parse_bootstrap_token,
            "An operator's token that the server creates when it starts: hw_ and 43 letters, digits, - or _. Once revoked, it "
            "stays revoked",
            hide,
        ),
    ]
    anonymous_rate: Annotated[
        Count,
        Setting(
            20, count(1, 1_000_000), "Requests per second of one address without a valid token, after the first 100 seconds' worth"
        ),
    ]
    max_connections: Annotated[
        Count,
        Setting(
            10_000, count(10, 1_000_000), "Connections of the server, from 10 to 1,000,000, but 128 fewer than files may be open"
        ),
    ]
    url: Annotated[
        Text,
        Setting(
            "http://$HEADWAY_HOST:$HEADWAY_PORT", parse_public_url, "The public address, for links in notices", redact_database_url
        ),
    ]


class ModelSettings(TypedDict, total=False):
    model: Annotated[Text, Setting(REHEARSAL_MODEL, parse_text, "The model of the strong tier, which answers people and plans")]
    model_mid: Annotated[Text, Setting("$HEADWAY_MODEL", parse_text, "The model of the mid tier, for workers")]
    model_cheap: Annotated[
        Text, Setting("$HEADWAY_MODEL", parse_text, "The model of the cheap tier, for the assessor, the evaluator and summaries")
    ]
    context_tokens: Annotated[
        Count,
        Setting(
            "",
            optional(count(MIN_CONTEXT_TOKENS, MAX_TOKENS)),
            "Tokens that a request and its answer may have together, at least 2,048; not set: the model's window, or where that is "
            "not known 16,384, and 4,096 for Ollama",
        ),
    ]
    max_output_tokens: Annotated[
        Count,
        Setting(
            "",
            optional(count(MIN_OUTPUT_TOKENS, MAX_TOKENS)),
            "Tokens that an answer may have, sent with every call and reserved from the budget at full price; not set: 8192, and "
            "at most a quarter of the window",
        ),
    ]
    drive: Annotated[
        Drive | None,
        Setting(
            "",
            optional(word(DRIVES)),
            "plan: an agent works through its whole plan in one context; item: the runtime takes up the open items in short "
            "contexts; not set: item for a model on this machine or in its network, otherwise plan",
        ),
    ]
    model_timeout_s: Annotated[
        Number, Setting(120, amount(0.1), "Seconds without data before a call fails; an answer may take 5 times as long in total")
    ]
    model_retries: Annotated[Count, Setting(LIMITS.attempts, count(0), "Attempts at a call in all, for failures that may pass")]
    retry_delay_s: Annotated[
        Number, Setting(1, amount(), "Seconds before the second attempt; doubled each time, at most five minutes")
    ]
    retry_after_max_s: Annotated[
        Number,
        Setting(LIMITS.retry_after_max_ms / 1000, amount(), "The longest delay asked for by a provider that is obeyed, in seconds"),
    ]
    rehearsal_pace_s: Annotated[
        Number, Setting(0, amount(), "Seconds that the rehearsal model takes for each answer, so that people can watch")
    ]


class AgentSettings(TypedDict, total=False):
    budget_usd: Annotated[
        Number,
        Setting(5, amount(), "Dollars that the agents of a tenant may spend in rolling 24 hours, unless it has its own limit"),
    ]
    quotas: Annotated[
        Text,
        Setting(
            Quotas().spelling,
            parse_quotas,
            "What one tenant may use of what all tenants share: a list of the quotas to change, such as turns:200,storage:5G",
            lambda quotas: str(quotas.spelling),
        ),
    ]
    max_iterations: Annotated[Count, Setting(LIMITS.iterations, count(), "Model calls of a turn")]
    max_iterations_with_plan: Annotated[
        Count,
        Setting(
            "", optional(count()), "Model calls of a turn whose plan has open items; not set: 50, or three per item and ten more"
        ),
    ]
    guard_refusals: Annotated[
        Count,
        Setting(
            LIMITS.guard_refusals,
            count(1, 100),
            "How often in a row the guard sends a coding assistant back that makes no progress, before it may stop",
        ),
    ]
    subagent_max_iterations: Annotated[
        Count,
        Setting(
            "",
            optional(count()),
            "Model calls of a sub-agent, and of a goal's main agent for one sub-goal; not set: 20, up to 50 while it makes "
            "progress",
        ),
    ]
    max_resubmissions: Annotated[Count, Setting(LIMITS.resubmissions, count(0), "Further items of a queue in one turn")]
    subagents_per_parent: Annotated[
        Count, Setting(LIMITS.per_parent, count(), "Sub-agents of one parent that work at the same time")
    ]
    agent_depth: Annotated[Count, Setting(LIMITS.depth, count(0), "How deep sub-agents may nest; 0 allows none")]
    approval_timeout_s: Annotated[
        Number, Setting(LIMITS.approval_ms / 1000, amount(1), "Seconds after which a proposed call that was not approved expires")
    ]
    http_allow: Annotated[
        Text,
        Setting(
            "",
            parse_hosts,
            "Hosts that agents may fetch from, separated by commas: example.org, *.example.org or *; not set: there is no such "
            "tool",
        ),
    ]
    webhook_hosts: Annotated[
        Text,
        Setting(
            "*",
            parse_hosts,
            "Hosts that webhooks may be sent to, in the same form. A host that is named exactly may have a private address and use "
            "http://",
        ),
    ]
    commands: Annotated[
        Text,
        Setting(
            "", parse_list, "Programs that agents may run, separated by commas: git,make,python3; not set: there are no such tools"
        ),
    ]
    sandbox: Annotated[
        SandboxMode | None,
        Setting(
            SANDBOX.mode,
            word(SANDBOX_MODES),
            "Whether these programs, and git in repositories, run in a sandbox: auto (where it works), required or off",
        ),
    ]
    sandbox_read: Annotated[
        Text,
        Setting(
            "", parse_absolute_paths, "Absolute paths that the sandbox shows read-only, besides the system's, separated by commas"
        ),
    ]
    sandbox_memory_mib: Annotated[
        Count,
        Setting(SANDBOX.memory // MEBIBYTE, count(16, 10_000_000), "Memory of a program and everything that it starts, in MiB"),
    ]
    sandbox_processes: Annotated[
        Count, Setting(SANDBOX.processes, count(1, 10_000_000), "Processes of a program; it may have four times as many threads")
    ]


class GoalSettings(TypedDict, total=False):
    replan_limit: Annotated[Count, Setting(GOAL_LIMITS.replans, count(0), "New plans that a goal may make before someone decides")]
    goal_discovery: Annotated[
        DiscoveryPolicy | None,
        Setting(
            GOAL_LIMITS.discovery,
            word(DISCOVERY_POLICIES),
            "Whether a goal that an agent proposes waits for approval (ask) or starts immediately (auto)",
        ),
    ]
    check_in_s: Annotated[
        Number,
        Setting(
            GOAL_LIMITS.check_in_ms / 1000,
            amount(0.1),
            "Seconds until the main agent first checks on a sub-agent; doubled each time",
        ),
    ]
    stuck_after_s: Annotated[
        Number,
        Setting(GOAL_LIMITS.stuck_after_ms / 1000, amount(), "Seconds without progress after which a sub-agent counts as stuck"),
    ]
    restart_stagger_s: Annotated[Number, Setting(2, amount(), "Seconds over which jobs restart after a takeover")]
    retention: Annotated[
        Text,
        Setting(
            "",
            parse_retention,
            "After how many days rows are deleted, such as events:30d,transcripts:90d; groups that are not named are kept",
        ),
    ]
    notify: Annotated[
        Text,
        Setting(
            "",
            parse_channels,
            "Notification channels of the operator: Apprise URLs, separated by commas. They are secrets",
            count_channels,
        ),
    ]


class SettingArguments(LocationSettings, ModelSettings, AgentSettings, GoalSettings, total=False):
    """The settings as keyword arguments of a program."""


GROUPS: Final = {
    title: {name: hint.__metadata__[0] for name, hint in group.__annotations__.items()}
    for title, group in (
        ("Locations", LocationSettings),
        ("Models", ModelSettings),
        ("Limits of agents", AgentSettings),
        ("Goals and the operator", GoalSettings),
    )
}
SETTINGS: Final[Mapping[str, Setting]] = {name: setting for group in GROUPS.values() for name, setting in group.items()}
