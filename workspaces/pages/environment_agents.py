"""The fields of an environment's form about agents that Handrail starts: which, with which key, which models."""

from django import forms
from django.utils.text import format_lazy
from django.utils.translation import gettext, gettext_lazy

from workspaces import extensions
from workspaces.models import Environment, Scope, Secret
from workspaces.provisioning import agent_programs, model_access

PROVIDERS = {"anthropic": "Anthropic", "openai": "OpenAI"}
AS_CODE = {"class": "code-field", "autocapitalize": "off", "autocomplete": "off", "spellcheck": "false"}


def _key(provider: str) -> forms.ChoiceField:
    label = format_lazy(gettext_lazy("Key of {provider}"), provider=PROVIDERS[provider])
    help_text = gettext_lazy("A secret that is given to Handrail, for models. It never enters a workspace.")
    return forms.ChoiceField(label=label, required=False, help_text=help_text)


def _models(provider: str) -> forms.CharField:
    return forms.CharField(
        label=format_lazy(gettext_lazy("Models of {provider}"), provider=PROVIDERS[provider]),
        required=False,
        max_length=2500,
        widget=forms.TextInput(attrs=AS_CODE),
        help_text=gettext_lazy(
            "Names separated by spaces, or patterns with *. The first is asked unless a run names one."
        ),
    )


def _tools(provider: str) -> forms.BooleanField:
    return forms.BooleanField(
        label=format_lazy(gettext_lazy("Tools that run at {provider}"), provider=PROVIDERS[provider]),
        required=False,
        help_text=gettext_lazy("Web search, web fetch, code and MCP of the provider, which no policy sees."),
    )


class AgentFields(forms.Form):
    """`agent_programs`, and for each provider key_, models_ and tools_ in the place of `model_access`."""

    agent_programs = forms.MultipleChoiceField(
        label=gettext_lazy("Agents that Handrail starts"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )
    key_anthropic = _key("anthropic")
    key_openai = _key("openai")
    models_anthropic = _models("anthropic")
    models_openai = _models("openai")
    tools_anthropic = _tools("anthropic")
    tools_openai = _tools("openai")

    def offer(self, teams, base: Environment | None):
        """Fill in the choices: what `base` names, what is installed or can be, and the secrets with keys."""
        named = list(base.agent_programs) if base else []
        self.fields["agent_programs"].choices = [(each, _title(each)) for each in _programs(named)]
        secrets = Secret.objects.filter(team__in=teams, scope=Scope.MODELS).order_by("name")
        known = list(dict.fromkeys(secrets.values_list("name", flat=True)))
        for provider in PROVIDERS:
            own = (base.model_access if base else {}).get(provider, {}).get("secret")
            names = dict.fromkeys([*known, *([own] if own else [])])
            none = gettext("None: agents get no models of %(provider)s") % {"provider": PROVIDERS[provider]}
            self.fields[f"key_{provider}"].choices = [("", none), *((name, name) for name in names)]

    def agent_columns(self) -> dict:
        """Return the columns `agent_programs` and `model_access`."""
        access = {}
        for provider in PROVIDERS:
            if secret := self.cleaned_data[f"key_{provider}"]:
                models = self.cleaned_data[f"models_{provider}"].split() or list(default_models(provider))
                access[provider] = {"secret": secret, "models": models}
                if self.cleaned_data[f"tools_{provider}"]:
                    access[provider]["tools"] = True
        return {"agent_programs": self.cleaned_data["agent_programs"], "model_access": model_access.check(access)}


def initial_of(base: Environment) -> dict:
    found = {"agent_programs": list(base.agent_programs)}
    for provider in PROVIDERS:
        access = base.model_access.get(provider, {})
        models = access.get("models", [])
        found[f"key_{provider}"] = access.get("secret", "")
        found[f"models_{provider}"] = "" if models == list(default_models(provider)) else " ".join(models)
        found[f"tools_{provider}"] = bool(access.get("tools"))
    return found


def default_models(provider: str) -> tuple[str, ...]:
    """Return the models of the provider that an environment gives unless it names others."""
    return next((each.models for each in extensions.agent_programs.values() if each.provider == provider), ())


def _programs(named: list[str]) -> list[str]:
    """Return NAME@VERSION of what can be chosen: for each agent what is named, installed or can be installed."""
    found = []
    for program in extensions.agent_programs.values():
        own = [each for each in named if each.partition("@")[0] == program.name]
        found += dict.fromkeys([*own, agent_programs.best_of(program) or program.named])
    return found


def _title(named: str) -> str:
    program, version = agent_programs.parse(named)
    title = f"{program.title} {version}"
    if agent_programs.is_available(named):
        return title
    return gettext("%(title)s (not installed on this host)") % {"title": title}
