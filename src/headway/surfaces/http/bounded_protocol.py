"""A request's head has a size, too: httptools would gather one without end, from anybody."""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_LIMIT = 64 * 1024


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's own, with an eye on what comes before a body."""

    in_head = True
    head_size = 0

    def data_received(self, data: bytes) -> None:
        if self.in_head:
            self.head_size += len(data)
        super().data_received(data)
        if self.in_head and self.head_size > HEAD_LIMIT and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def on_message_begin(self) -> None:
        self.in_head = True
        self.head_size = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self.in_head = False
        super().on_headers_complete()
