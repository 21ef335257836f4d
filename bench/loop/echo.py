"""A bare WebSocket echo, to be served by daphne: what a message through this server costs by itself."""


async def application(scope, receive, send):
    if scope["type"] != "websocket":
        return
    while (message := await receive())["type"] != "websocket.disconnect":
        if message["type"] == "websocket.connect":
            await send({"type": "websocket.accept"})
        else:
            await send({"type": "websocket.send", "text": message["text"]})
