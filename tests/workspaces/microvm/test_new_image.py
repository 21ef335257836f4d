"""An image that `make images` has just put in place."""

import json
import time

from workspaces.drivers.base import DriverError
from workspaces.drivers.microvm import machine


def test_a_new_image_is_seen_at_once(new_product, require):
    try:
        machine.find_qemu()
    except DriverError as error:
        require("microvm", str(error))
    product = new_product()
    product.start()
    token = product.agent_token()

    def reason() -> str:
        drivers = product.get("/api/v1/drivers", token).json["drivers"]
        return next((driver["reason"] for driver in drivers if driver["name"] == "microvm"), "")

    began = time.monotonic()
    while reason() != "There is no image for microVMs on this host.":
        assert time.monotonic() - began < 20, reason()
        time.sleep(0.2)
    made = product.home / "images" / "microvm" / "0123456789abcdef"
    made.mkdir(parents=True)
    (made / "manifest.json").write_text(json.dumps({"format": 0}))
    (made.parent / "current").symlink_to(made.name)
    began = time.monotonic()
    while reason() != "The image for microVMs was built by another version of Handrail.":
        assert time.monotonic() - began < 20, "the runner looked for it only when its minute was over"
        time.sleep(0.2)
