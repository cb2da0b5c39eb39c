"""Why a request gets no answer: a status that HTTP and gRPC clients know, and a sentence."""

from __future__ import annotations

# A message may quote what the client sent, and a log line or a terminal shows it: control characters are written out.
_MESSAGE_CHARACTERS = 1000

BAD, UNKNOWN_CALLER, FORBIDDEN, NOT_FOUND, NOT_ALLOWED = 400, 401, 403, 404, 405
TOO_SLOW, TOO_LARGE, MISDIRECTED, TOO_MANY, HEADERS_TOO_LARGE, UNAVAILABLE, LATE = 408, 413, 421, 429, 431, 503, 504

REASONS = {
    200: "OK", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
    408: "Request Timeout", 413: "Content Too Large", 415: "Unsupported Media Type", 421: "Misdirected Request",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large", 500: "Internal Server Error", 503: "Service Unavailable",
    504: "Gateway Timeout",
}  # fmt: skip


class Refusal(Exception):
    """A request that is turned down. `retry_after` is in seconds, where trying again may help; `allow` are the right methods."""

    def __init__(
        self, status: int, message: str, *, retry_after: int | None = None, allow: tuple[str, ...] = ()
    ) -> None:
        self.message = plain(message)
        super().__init__(self.message)
        self.status = status
        self.retry_after = retry_after
        self.allow = allow


def bad(message: str) -> Refusal:
    """The request itself is wrong."""
    return Refusal(BAD, message)


def plain(text: str, most: int = _MESSAGE_CHARACTERS) -> str:
    """The text on one line: cut after so many characters, with everything that is not printable written as an escape."""
    if len(text) <= most and text.isprintable():
        return text
    short = text if len(text) <= most else f"{text[:most]}..."
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape", "surrogatepass").decode()
        for letter in short
    )
