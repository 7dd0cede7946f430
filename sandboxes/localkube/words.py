"""Names, labels and other words that objects may carry, and what the real API says of others. Pure."""

import re

_PART = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_PART})?"
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_ENDS = "and must start and end with an alphanumeric character"
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")


def bad_subdomain(text: str) -> str:
    """Why `text` cannot name an object, "" when it can; so do the others."""
    if len(text) > 253:
        return "must be no more than 253 characters"
    allowed = f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ENDS}"
    return _unless(_SUBDOMAIN, text, f"{allowed} (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')")


def bad_container_name(text: str) -> str:
    if len(text) > 63:
        return "must be no more than 63 characters"
    allowed = f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ENDS}"
    return _unless(_LABEL, text, f"{allowed} (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')")


def bad_key(text: str) -> str:
    """Of a label, an annotation or a finalizer: a name, perhaps behind a domain and a slash."""
    prefix, slash, name = text.rpartition("/")
    if slash and not prefix:
        return "prefix part must be non-empty"
    if prefix and (why := bad_subdomain(prefix)):
        return f"prefix part {why}"
    if not name:
        return "name part must be non-empty"
    if len(name) > 63:
        return "name part must be no more than 63 characters"
    examples = f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_PART}')"
    allowed = "name part must consist of alphanumeric characters, '-', '_' or '.',"
    return _unless(_PART, name, f"{allowed} {_ENDS} {examples}")


def bad_label_value(text: str) -> str:
    if len(text) > 63:
        return "must be no more than 63 characters"
    allowed = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.',"
    examples = f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_VALUE}')"
    return _unless(_VALUE, text, f"{allowed} {_ENDS} {examples}")


def bad_finalizer(text: str) -> str:
    if why := bad_key(text):
        return why
    if "/" in text or text in _STANDARD_FINALIZERS:
        return ""
    return "name is neither a standard finalizer name nor is it fully qualified"


def _unless(pattern: str, text: str, why: str) -> str:
    return "" if re.fullmatch(pattern, text) else why
