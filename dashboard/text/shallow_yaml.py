"""YAML of others, without deep nesting: PyYAML looks at every open bracket for each token that it reads."""

import yaml

MAX_DEPTH = 100  # brackets and braces within each other


class Loader(yaml.SafeLoader):
    """Loads plain values; YAMLError beyond MAX_DEPTH."""

    def fetch_flow_collection_start(self, TokenClass):
        if self.flow_level >= MAX_DEPTH:
            raise yaml.YAMLError(f"it has more than {MAX_DEPTH} brackets within each other")
        super().fetch_flow_collection_start(TokenClass)
