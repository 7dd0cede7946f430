"""multipart/form-data, read as it streams: no part is ever held whole (RFC 7578)."""

from __future__ import annotations

from .errors import HttpError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Read = Callable[[], Awaitable[bytes]]

_HEADERS_LIMIT = 16 * 1024
_BOUNDARY_LIMIT = 200


class Part:
    """Name and full file name (a whole path, never cut down to its last component)."""

    def __init__(self, name: str, filename: str) -> None:
        self.name = name
        self.filename = filename


class Form:
    def __init__(self, content_type: str, read: Read) -> None:
        boundary = parameters(content_type).get("boundary", "")
        if not boundary or len(boundary) > _BOUNDARY_LIMIT:
            raise HttpError(400, "the header Content-Type has no usable boundary")
        self._delimiter = b"\r\n--" + boundary.encode("latin-1")
        self._read = read
        self._data = bytearray(b"\r\n")
        """The body so far unread; it begins with a line end so that the first delimiter looks like the others."""

    async def next_part(self) -> Part | None:
        """The next part's headers, skipping what is left of the one before; None after the last."""
        while await self.read():
            pass
        del self._data[: len(self._delimiter)]
        while len(self._data) < 2:
            await self._more()
        if self._data.startswith(b"--"):
            await self._skip_rest()
            return None
        if (await self._line()).strip(b" \t"):
            raise _broken()
        return _part(await self._headers())

    async def read(self) -> bytes:
        """The next piece of the part's content; b"" at its end."""
        while True:
            found = self._data.find(self._delimiter)
            if found == 0:
                return b""
            safe = found if found > 0 else len(self._data) - len(self._delimiter) + 1
            if safe > 0:
                piece = bytes(self._data[:safe])
                del self._data[:safe]
                return piece
            await self._more()

    async def _headers(self) -> list[bytes]:
        lines: list[bytes] = []
        while line := await self._line():
            lines.append(line)
            if sum(map(len, lines)) > _HEADERS_LIMIT:
                raise HttpError(400, f"a part's headers are larger than {_HEADERS_LIMIT} bytes", close=True)
        return lines

    async def _line(self) -> bytes:
        while (end := self._data.find(b"\r\n")) < 0:
            if len(self._data) > _HEADERS_LIMIT:
                raise HttpError(400, f"a part's headers are larger than {_HEADERS_LIMIT} bytes", close=True)
            await self._more()
        line = bytes(self._data[:end])
        del self._data[: end + 2]
        return line

    async def _more(self) -> None:
        data = await self._read()
        if not data:
            raise _broken()
        self._data += data

    async def _skip_rest(self) -> None:
        while await self._read():
            pass


def parameters(header: str) -> dict[str, str]:
    """The `name=value` parts of a header, quoted or not; `name*=UTF-8''...` wins over `name=`."""
    found: dict[str, str] = {}
    rest = header.partition(";")[2]
    while rest:
        name, _, rest = rest.lstrip("; \t").partition("=")
        value, rest = _value(rest)
        name = name.strip().lower()
        if name.endswith("*") and value.lower().startswith("utf-8''"):
            from .http1 import unquote

            found[name[:-1]] = unquote(value[7:].replace("+", "%2B"))
        else:
            found.setdefault(name, value)
    return found


def _value(rest: str) -> tuple[str, str]:
    if not rest.startswith('"'):
        value, _, rest = rest.partition(";")
        return value.strip(), rest
    letters: list[str] = []
    place = 1
    while place < len(rest) and rest[place] != '"':
        if rest[place] == "\\" and rest[place + 1 : place + 2] in ('"', "\\"):
            place += 1
        letters.append(rest[place])
        place += 1
    return "".join(letters), rest[place + 1 :].partition(";")[2]


def _part(lines: list[bytes]) -> Part:
    for line in lines:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-disposition":
            try:
                found = parameters(value.decode())
            except UnicodeDecodeError:
                raise HttpError(400, "a part's Content-Disposition is not UTF-8", close=True) from None
            return Part(_browser_unescaped(found.get("name", "")), _browser_unescaped(found.get("filename", "")))
    raise HttpError(400, "a part has no Content-Disposition", close=True)


def _browser_unescaped(name: str) -> str:
    """Browsers and HTTP libraries write these three characters of a name as percent codes (RFC 7578, HTML standard)."""
    return name.replace("%22", '"').replace("%0D", "\r").replace("%0A", "\n")


def _broken() -> HttpError:
    return HttpError(400, "the form is broken off or its boundaries do not fit", close=True)
