"""The egress proxy beside tinyproxy and mitmproxy: throughput, first byte and memory, in one run."""
