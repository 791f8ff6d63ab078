"""A REST service of notes for examples/tools/TL-400, in memory, on this machine alone.

    NOTES_KEY=key-of-the-notes python3 examples/notes/notes.py
"""

import http.server
import json
import os

KEY = "Bearer " + os.environ["NOTES_KEY"]
NOTES = [{"id": 1, "text": "milk"}]


class Notes(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        found = [n for n in NOTES if self.path == f"/notes/{n['id']}"]
        self.answer(200 if found else 404, found[0] if found else None)

    def do_POST(self):
        text = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"]
        NOTES.append({"id": len(NOTES) + 1, "text": text})
        self.answer(201, NOTES[-1])

    def answer(self, status, data):
        if self.headers["Authorization"] != KEY:
            status, data = 401, None
        body = json.dumps({"data": data}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    http.server.HTTPServer(("127.0.0.1", 8765), Notes).serve_forever()
