"""Print what the providers' own SDKs publish of their requests, as JSON: run by a Python that has the SDKs.

{provider: {"version", "fields": [of a request], "kinds": [each `type` in it], "betas": [of a header]}}
"""

import json
import sys
import typing
from importlib import metadata


def main():
    import typing_extensions
    from anthropic.types import anthropic_beta_param, message_create_params
    from anthropic.types.beta import message_count_tokens_params
    from anthropic.types.beta import message_create_params as beta_create
    from openai.types.responses import response_create_params

    requests = {
        "anthropic": [
            *typing.get_args(message_create_params.MessageCreateParams),
            *typing.get_args(beta_create.MessageCreateParams),
            message_count_tokens_params.MessageCountTokensParams,
        ],
        "openai": [*typing.get_args(response_create_params.ResponseCreateParams)],
    }
    told = {}
    for provider, shapes in requests.items():
        fields, kinds = set(), set()
        for shape in shapes:
            fields |= set(typing_extensions.get_type_hints(shape))
            walk(typing_extensions, shape, set(), kinds)
        told[provider] = {"version": metadata.version(provider), "fields": sorted(fields), "kinds": sorted(kinds)}
    told["anthropic"]["betas"] = sorted(filter(None, literals(anthropic_beta_param.AnthropicBetaParam)))
    json.dump(told, sys.stdout)


def walk(reader, shape, seen: set, kinds: set):
    """Collect the values of `type` of every object that can be in a shape."""
    if isinstance(shape, str | typing.ForwardRef) or id(shape) in seen:
        return
    seen.add(id(shape))
    if reader.is_typeddict(shape):
        hints = reader.get_type_hints(shape)
        if "type" in hints:
            kinds |= literals(hints["type"])
        for hint in hints.values():
            walk(reader, hint, seen, kinds)
    for part in typing.get_args(shape):
        walk(reader, part, seen, kinds)


def literals(hint) -> set:
    if typing.get_origin(hint) is typing.Literal:
        return {value for value in typing.get_args(hint) if isinstance(value, str)}
    return {value for part in typing.get_args(hint) for value in literals(part)}


if __name__ == "__main__":
    main()
