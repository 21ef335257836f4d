"""An MCP server over streamable HTTP with the tools, resources and prompts of `@modelcontextprotocol/conformance`.

It uses the MCP project's SDK and prints its port. The conformance suite prescribes all names, texts and schemas.
"""

import asyncio
import socket

import mcp_types as types
import uvicorn
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SILENCE = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
NOTHING = {"type": "object", "properties": {}}
SCHEMA_2020_12 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}
WITH_DEFAULTS = {
    "name": {"type": "string", "description": "User name", "default": "John Doe"},
    "age": {"type": "integer", "description": "User age", "default": 30},
    "score": {"type": "number", "description": "User score", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
OPTIONS = ["option1", "option2", "option3"]
TITLED = [{"const": f"value{n}", "title": f"{name} Option"} for n, name in enumerate(("First", "Second", "Third"), 1)]
ENUMS = {
    "untitledSingle": {"type": "string", "enum": OPTIONS},
    "titledSingle": {"type": "string", "oneOf": TITLED},
    "legacyEnum": {
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
    "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
}
ASKED_FOR = {
    name: {"type": "string", "description": f"User's {words}"}
    for name, words in (("username", "response"), ("email", "email address"))
}


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)


def _image() -> types.ImageContent:
    return types.ImageContent(type="image", data=PIXEL, mime_type="image/png")


def _embedded(uri: str, text: str, kind: str = "text/plain") -> types.EmbeddedResource:
    contents = types.TextResourceContents(uri=uri, mime_type=kind, text=text)
    return types.EmbeddedResource(type="resource", resource=contents)


# Tools ---------------------------------------------------------------------------------------------------------------

CONTENT = {
    "test_simple_text": [_text("This is a simple text response for testing.")],
    "test_image_content": [_image()],
    "test_audio_content": [types.AudioContent(type="audio", data=SILENCE, mime_type="audio/wav")],
    "test_embedded_resource": [_embedded("test://embedded-resource", "This is an embedded resource content.")],
    "test_multiple_content_types": [
        _text("Multiple content types test:"),
        _image(),
        _embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json"),
    ],
    "json_schema_2020_12_tool": [_text("Called.")],
}


async def _log(ctx, _):
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.session.send_log_message("info", text, related_request_id=ctx.request_id)
        await asyncio.sleep(0.05)
    return "Logged."


async def _progress(ctx, _):
    for done in (0, 50, 100):
        await ctx.session.report_progress(done, 100, f"Completed step {done} of 100")
        await asyncio.sleep(0.05)
    return "Done."


async def _sample(ctx, arguments):
    asked = types.SamplingMessage(role="user", content=_text(arguments["prompt"]))
    said = await ctx.session.create_message([asked], max_tokens=100, related_request_id=ctx.request_id)
    return f"LLM response: {said.content.text}"


async def _elicit(ctx, message: str, properties: dict, required: list[str]):
    schema = {"type": "object", "properties": properties, "required": required}
    said = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
    return f"User response: action={said.action}, content={said.content}"


async def _reconnect(ctx, _):
    if ctx.close_sse_stream is not None:
        await ctx.close_sse_stream()
    await asyncio.sleep(0.1)
    return "Reconnection test completed successfully."


HANDLERS = {
    "test_tool_with_logging": _log,
    "test_tool_with_progress": _progress,
    "test_sampling": _sample,
    "test_elicitation": lambda ctx, arguments: _elicit(ctx, arguments["message"], ASKED_FOR, ["username", "email"]),
    "test_elicitation_sep1034_defaults": lambda ctx, _: _elicit(ctx, "Please review", WITH_DEFAULTS, []),
    "test_elicitation_sep1330_enums": lambda ctx, _: _elicit(ctx, "Please choose", ENUMS, []),
    "test_reconnection": _reconnect,
}
ARGUMENTS = {"test_sampling": "prompt", "test_elicitation": "message"}


def _tool(name: str) -> types.Tool:
    schema = SCHEMA_2020_12 if name.startswith("json_schema") else NOTHING
    if argument := ARGUMENTS.get(name):
        schema = {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}
    return types.Tool(name=name, description="A tool that the conformance suite calls.", input_schema=schema)


def _form(message: str, **properties) -> dict:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def _question(text: str) -> dict:
    asked = {"role": "user", "content": {"type": "text", "text": text}}
    return {"method": "sampling/createMessage", "params": {"messages": [asked], "maxTokens": 100}}


NAME, COLOR, OK = {"name": {"type": "string"}}, {"color": {"type": "string"}}, {"ok": {"type": "boolean"}}
# Of 2026-07-28: what tools ask their user, round by round, and whether they give the client a state to send back.
ASKING = {
    "elicitation": ([{"user_name": _form("What is your name?", **NAME)}], False),
    "sampling": ([{"capital_question": _question("What is the capital of France?")}], False),
    "list_roots": ([{"client_roots": {"method": "roots/list", "params": {}}}], False),
    "request_state": ([{"confirm": _form("Please confirm", **OK)}], True),
    "multiple_inputs": (
        [
            {
                "user_name": _form("What is your name?", **NAME),
                "greeting": _question("Generate a greeting"),
                "client_roots": {"method": "roots/list", "params": {}},
            }
        ],
        True,
    ),
    "multi_round": (
        [
            {"step1": _form("Step 1: What is your name?", **NAME)},
            {"step2": _form("Step 2: What is your favorite color?", **COLOR)},
        ],
        True,
    ),
    "tampered_state": ([{"confirm": _form("Please confirm", **OK)}], True),
    "capabilities": ([{"capital_question": _question("What is the capital of France?")}], False),
}
ASKING = {f"test_input_required_result_{name}": each for name, each in ASKING.items()}


def ask_back(params):
    """Return what an asking tool wants to know next, or that it knows all; the state is the number of the round."""
    rounds, has_state = ASKING[params.name]
    given, state = params.input_responses or {}, params.request_state
    if has_state and given and state not in map(str, range(len(rounds))):
        raise MCPError(types.INVALID_PARAMS, "requestState rejected")
    now = int(state) if has_state and given else 0
    now += set(rounds[now]) <= set(given)
    if now < len(rounds):
        return types.InputRequiredResult(input_requests=rounds[now], request_state=str(now) if has_state else None)
    told = ", ".join(f"{key}: {value.model_dump_json()}" for key, value in given.items())
    return types.CallToolResult(content=[_text(f"state-ok {told}")])


async def list_tools(ctx, params):
    names = [*CONTENT, *HANDLERS, *ASKING, "test_error_handling"]
    return types.ListToolsResult(tools=[_tool(name) for name in names])


async def call_tool(ctx, params):
    if params.name in ASKING:
        return ask_back(params)
    if params.name == "test_error_handling":
        return types.CallToolResult(
            content=[_text("This tool intentionally returns an error for testing")], is_error=True
        )
    if params.name in CONTENT:
        return types.CallToolResult(content=CONTENT[params.name])
    return types.CallToolResult(content=[_text(await HANDLERS[params.name](ctx, params.arguments or {}))])


# Resources and prompts -----------------------------------------------------------------------------------------------

STATIC = {
    "test://static-text": ("text/plain", "This is the content of the static text resource."),
    "test://static-binary": ("image/png", None),
    "test://watched-resource": ("text/plain", "Watched resource content"),
}


async def list_resources(ctx, params):
    made = [types.Resource(uri=uri, name=uri[7:], mime_type=kind) for uri, (kind, _) in STATIC.items()]
    return types.ListResourcesResult(resources=made)


async def list_templates(ctx, params):
    template = types.ResourceTemplate(
        uri_template="test://template/{id}/data", name="template", mime_type="application/json"
    )
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(ctx, params):
    uri = str(params.uri)
    if uri.startswith("test://template/"):
        number = uri.split("/")[3]
        text = f'{{"id":"{number}","templateTest":true,"data":"Data for ID: {number}"}}'
        found = types.TextResourceContents(uri=uri, mime_type="application/json", text=text)
    else:
        kind, text = STATIC[uri]
        found = (
            types.BlobResourceContents(uri=uri, mime_type=kind, blob=PIXEL)
            if text is None
            else types.TextResourceContents(uri=uri, mime_type=kind, text=text)
        )
    return types.ReadResourceResult(contents=[found])


PROMPTS = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
    "test_prompt_with_image": [],
}


async def list_prompts(ctx, params):
    made = [
        types.Prompt(
            name=name,
            description="A prompt that the conformance suite gets.",
            arguments=[types.PromptArgument(name=each, description=each, required=True) for each in arguments],
        )
        for name, arguments in PROMPTS.items()
    ]
    return types.ListPromptsResult(prompts=made)


async def get_prompt(ctx, params):
    named = params.arguments or {}
    said = {
        "test_simple_prompt": lambda: [_text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments": lambda: [
            _text(f"Prompt with arguments: arg1='{named['arg1']}', arg2='{named['arg2']}'")
        ],
        "test_prompt_with_embedded_resource": lambda: [
            _embedded(named["resourceUri"], "Embedded resource content for testing."),
            _text("Please process the embedded resource above."),
        ],
        "test_prompt_with_image": lambda: [_image(), _text("Please analyze the image above.")],
    }[params.name]()
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=each) for each in said])


async def complete(ctx, params):
    return types.CompleteResult(completion=types.Completion(values=["paris", "park", "party"], total=3, has_more=False))


async def accept(ctx, params):
    return types.EmptyResult()


server = Server(
    "conformance",
    version="1",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_list_resources=list_resources,
    on_list_resource_templates=list_templates,
    on_read_resource=read_resource,
    on_subscribe_resource=accept,
    on_unsubscribe_resource=accept,
    on_list_prompts=list_prompts,
    on_get_prompt=get_prompt,
    on_completion=complete,
    on_set_logging_level=accept,
)


def main():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        app = server.streamable_http_app(host="127.0.0.1")
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    main()
