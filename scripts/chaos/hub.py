"""A hub that serves one model folder, and can be told to misbehave."""

import hashlib
import json
import re

from wire import Reply, Server

# Beside those of every server.
HUB_MOODS = ("wrong hash", "bad names", "no etag")
COMMIT = "c" * 40


class Hub(Server):
    """Serves the files of a folder as `chaos/tiny`, at a pace of so many bytes a second if there is one."""

    def __init__(self, folder, moods=("honest",), pace=0.0, touched="model.safetensors"):
        self.files = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}
        self.hashes = {name: hashlib.sha256(data).hexdigest() for name, data in self.files.items()}
        self.pace, self.touched = pace, touched
        super().__init__(moods)

    def is_touched(self, request):
        return self.touched in request.path

    def reply(self, request, mood):
        if request.path.startswith("/api/models/chaos/tiny/revision/"):
            names = ["../../outside.json", "config.json/../../../x"] if mood == "bad names" else list(self.files)
            return Reply(body=json.dumps({"sha": COMMIT, "siblings": [{"rfilename": name} for name in names]}).encode())
        match = re.match(rf"/chaos/tiny/resolve/{COMMIT}/(.+)$", request.path)
        if not match or match[1] not in self.files:
            return Reply(404)
        return self.file(match[1], request, mood)

    def file(self, name, request, mood):
        """A file, or the part of it that is asked for."""
        data = self.files[name]
        if mood == "wrong hash":
            data = data[:100] + bytes([data[100] ^ 1]) + data[101:]
        headers = {} if mood == "no etag" else {"ETag": f'"{self.hashes[name]}"'}
        if request.method == "HEAD":
            return Reply(headers=headers, length=len(data))
        asked = re.match(r"bytes=(\d+)-$", request.headers.get("range", ""))
        if not asked:
            return Reply(headers=headers, body=data, pace=self.pace)
        start = int(asked[1])
        if start >= len(data):
            return Reply(416, {"Content-Range": f"bytes */{len(data)}"})
        headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        return Reply(206, headers, data[start:], self.pace)
