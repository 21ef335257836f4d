"""The form of an environment in parts: what is asked first, what is below *Advanced*, and each field's default."""

from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy

from workspaces.drivers import capabilities
from workspaces.pages.environment_agents import PROVIDERS, default_models

FIRST = ("team", "name", "repository", "agent_programs", "key_anthropic", "key_openai")
GROUPS = (
    (gettext_lazy("Source"), ("ref", "submodules", "lfs", "sign_commits")),
    (
        gettext_lazy("Where it runs"),
        (
            "driver",
            "image",
            "dockerfile",
            "build_args",
            "build_target",
            "runtime_class",
            "storage",
            "minimum_isolation",
        ),
    ),
    (
        gettext_lazy("Scripts and programs"),
        ("setup", "maintenance", "maintenance_minutes", "variables", "working_directory", "checks", "services"),
    ),
    (gettext_lazy("Network"), ("egress_setup", "egress_agent", "upstream")),
    (
        gettext_lazy("Agents and secrets"),
        (
            *(f"{part}_{provider}" for provider in PROVIDERS for part in ("models", "tools")),
            "agents_together",
            "agents",
            "setup_secrets",
            "agent_secrets",
        ),
    ),
    (gettext_lazy("Pauses and snapshots"), ("idle_minutes", "stop_hours", "ephemeral", "snapshot_ignore")),
    (gettext_lazy("Limits"), ("memory_mb", "cpus", "pids", "disk_mb")),
)
NONE = gettext_lazy("none")
# In words, where the help does not say it already.
DEFAULTS = {
    "ref": gettext_lazy("the default branch of the source"),
    "submodules": gettext_lazy("cloned"),
    "lfs": gettext_lazy("left as pointers"),
    "sign_commits": gettext_lazy("on"),
    "driver": gettext_lazy("sandboxed"),
    "dockerfile": "Dockerfile",
    "build_args": NONE,
    "build_target": gettext_lazy("the last stage"),
    "runtime_class": gettext_lazy("that of the cluster, or of the engine"),
    "storage": gettext_lazy("on the node"),
    "minimum_isolation": gettext_lazy("that of where it runs"),
    "setup": NONE,
    "maintenance": NONE,
    "variables": NONE,
    "working_directory": "/workspace",
    "checks": NONE,
    "services": NONE,
    "egress_agent": NONE,
    "upstream": gettext_lazy("as for Handrail itself"),
    "tools_anthropic": gettext_lazy("off"),
    "tools_openai": gettext_lazy("off"),
    "agents_together": gettext_lazy("warn"),
    "agents": gettext_lazy("any agent without secrets, none with secrets"),
    "setup_secrets": NONE,
    "agent_secrets": NONE,
    "stop_hours": gettext_lazy("the server's setting"),
    "ephemeral": gettext_lazy("off"),
    "snapshot_ignore": gettext_lazy("nothing"),
}


@dataclass(frozen=True)
class Group:
    """Fields below *Advanced* under one title."""

    title: str | Promise
    fields: list


def state_defaults(form):
    """Add its default to the help of each field whose help does not say it."""
    models = {f"models_{each}": " ".join(default_models(each)) for each in PROVIDERS}
    words = DEFAULTS | models
    for name, default in words.items():
        field = form.fields[name]
        field.help_text = f"{field.help_text} {gettext('Default: %(words)s.') % {'words': default}}".strip()


def first_of(form) -> list:
    return [form[name] for name in FIRST if name in form.fields and not form[name].is_hidden]


def groups_of(form) -> list[Group]:
    return [Group(title, [form[name] for name in names]) for title, names in GROUPS]


def changed_of(form) -> list[str]:
    """Return the labels of the fields below *Advanced* that have another value than their default."""
    names = [name for _, group in GROUPS for name in group]
    return [str(form[name].label) for name in names if not _is_default(form, name)]


def _is_default(form, name: str) -> bool:
    value = form[name].value()
    if name == "driver":
        return (value or capabilities.DEFAULT) == capabilities.DEFAULT
    if name == "minimum_isolation":
        driver = form["driver"].value()
        return not value or (driver in capabilities.TABLE and value == capabilities.of(driver).usual_isolation)
    if name == "sign_commits":
        return bool(value)
    usual = form.fields[name].initial or ""
    return (value or "") == usual
