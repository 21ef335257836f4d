"""The hosts from which package managers fetch what a project names."""

# Of each manager: the domain, and the names below it.
_DOMAINS = {
    "npm": [("npmjs", "registry", "org")],
    "yarn": [("yarnpkg", "registry", "com")],
    "pip": [("pypi", "", "org"), ("pythonhosted", "files", "org")],
    "gem": [("rubygems", "", "org")],
    "bundler": [("rubygems", "index", "org")],
    "composer": [("packagist", "repo", "org")],
    "go": [("golang", "proxy", "org"), ("golang", "sum", "org")],
    "cargo": [("crates", "index", "io"), ("crates", "static", "io")],
    "maven": [("apache", "repo.maven", "org"), ("maven", "repo1", "org")],
}
REGISTRIES = {
    manager: tuple(".".join(filter(None, (name, domain, top))) for domain, name, top in hosts)
    for manager, hosts in _DOMAINS.items()
}
