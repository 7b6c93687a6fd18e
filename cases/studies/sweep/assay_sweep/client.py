"""One token asked of a server after a prompt of token ids: what it answered, and the log-probability of the
right answer. And what a language model says in a conversation.

Dialects: llama.cpp's /completion, and OpenAI's /v1/completions for servers that take token ids as prompt. A
listed token is known by its id where the server writes one, else by its text, as the models' texts are all
different."""
import http.client
import json
import math
import select
import socket
import time
import urllib.parse

LISTED = 8  # tokens of which the probability is asked
ENDED = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)
IDLE = 1.0  # seconds after which a connection is not used again: servers drop an idle one after 5 s (llama.cpp's, uvicorn) or more


class ServerError(Exception):
    """The server did not answer, or not with a completion: a verdict of the cell, never the end of the
    run."""

    def __init__(self, verdict, what):
        super().__init__(what)
        self.verdict = verdict


class Client:
    def __init__(self, url, timeout, texts=None):
        parsed = urllib.parse.urlsplit(url)
        if parsed.scheme not in ("http", "https") or not parsed.hostname:
            raise ServerError("failed", f"{url}: allowed: http://HOST:PORT")
        self.url, self.timeout, self.texts = url, timeout, texts or {}
        kind = http.client.HTTPSConnection if parsed.scheme == "https" else http.client.HTTPConnection
        self.connection = kind(parsed.hostname, parsed.port, timeout=timeout)
        self.base, self.answered, self.resent = parsed.path.rstrip("/"), 0.0, 0
        self.openai = self.model = None

    def get(self, path):
        return self._send("GET", path, None)

    def post(self, path, body):
        return self._send("POST", path, json.dumps(body).encode())

    def _dropped(self):
        """Whether the server ended the connection, or may be about to, while nothing was asked: no request
        was lost, so none is a crash."""
        sock = self.connection.sock
        return sock and (time.monotonic() - self.answered > IDLE or select.select([sock], [], [], 0)[0])

    def _send(self, method, path, body):
        """A server may end a used connection at any moment between two requests; the one that met that end is
        sent once more, and counted."""
        if self._dropped():
            self.connection.close()
        used = self.connection.sock is not None
        try:
            return self._exchange(method, path, body)
        except ENDED as error:
            if not used:
                raise ServerError("crash", f"{method} {path}: {error or type(error).__name__}") from None
        self.resent += 1
        try:
            return self._exchange(method, path, body)
        except ENDED as error:
            raise ServerError("crash", f"{method} {path}, twice: {error or type(error).__name__}") from None

    def _exchange(self, method, path, body):
        try:
            self.connection.request(method, self.base + path, body,
                                    {"Content-Type": "application/json"} if body else {})
            # A server without TCP_NODELAY sends its body when its header is acknowledged, which Linux would
            # put off by 40 ms.
            self.connection.sock.setsockopt(socket.IPPROTO_TCP,
                                            getattr(socket, "TCP_QUICKACK", socket.TCP_NODELAY), 1)
            answer = self.connection.getresponse()
            read = answer.read()
            self.answered = time.monotonic()
            return answer.status, read
        except TimeoutError:
            self.connection.close()
            raise ServerError("hang", f"{method} {path}: no answer within {self.timeout:g} s") from None
        except ENDED:
            self.connection.close()
            raise
        except (OSError, http.client.HTTPException) as error:
            self.connection.close()
            raise ServerError("crash", f"{method} {path}: {error or type(error).__name__}") from None

    def ready(self):
        """Whether /health says so: 503 is a server that loads its model; one without /health is taken at its
        word."""
        status, _ = self.get("/health")
        return status != 503

    def describe(self):
        for path in ("/props", "/v1/models"):
            status, body = self.get(path)
            if status == 200:
                try:
                    found = json.loads(body)
                except ValueError:
                    continue
                keep = {k: found[k] for k in ("build_info", "model_path", "total_slots") if k in found}
                if keep:
                    return keep
                if found.get("data"):
                    return {"model": found["data"][0].get("id"), "owner": found["data"][0].get("owned_by")}
        return {}

    def ask(self, prompt, answer):
        """(token id or -1, log-probability of `answer`: measured, or at most that of the least probable
        listed)."""
        if self.openai is None:
            self.openai = False
            status, body = self._llama(prompt)
            if status == 404:
                self.openai = True
        elif not self.openai:
            status, body = self._llama(prompt)
        if self.openai:
            status, body = self.post("/v1/completions",
                                     {"prompt": prompt, "max_tokens": 1, "temperature": 0, "logprobs": LISTED,
                                                         "return_tokens_as_token_ids": True})
        if status != 200:
            raise ServerError("failed", f"HTTP {status}: {body[:300].decode(errors='replace')}")
        try:
            listed = self._listed(json.loads(body))
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            raise ServerError("failed",
                              f"no completion with log-probabilities ({error!r}): {body[:300].decode(errors='replace')}") from None
        if not listed:
            raise ServerError("failed", "no token and no log-probability in the answer")
        # NaN is the largest of nothing: a token of which the probability is no number was not found.
        numbers = [(p, t) for t, p in listed if isinstance(p, (int, float)) and math.isfinite(p)]
        if not numbers:
            return -1, -math.inf
        found = dict((t, p) for p, t in numbers)
        return max(numbers)[1], found.get(answer, min(numbers)[0])

    def chat(self, messages, most):
        """(what is said in at most `most` tokens, tokens of the prompt), without sampling, by OpenAI's
        /v1/chat/completions."""
        if self.model is None:
            self.model = self.describe().get("model", "")
        status, body = self.post("/v1/chat/completions",
                                 {"model": self.model, "messages": messages, "max_tokens": most,
                                  "temperature": 0})
        if status != 200:
            raise ServerError("failed", f"HTTP {status}: {body[:300].decode(errors='replace')}")
        try:
            answer = json.loads(body)
            return answer["choices"][0]["message"]["content"] or "", int(answer["usage"]["prompt_tokens"])
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise ServerError("failed",
                              f"no answer with its usage ({error!r}): {body[:300].decode(errors='replace')}") from None

    def _llama(self, prompt):
        return self.post("/completion",
                         {"prompt": prompt, "n_predict": 1, "temperature": 0, "cache_prompt": True,
                          "n_probs": LISTED})

    def _token(self, entry):
        if isinstance(entry.get("id"), int):
            return entry["id"]
        return self._by_text(entry.get("token", entry.get("tok_str", "")))

    def _by_text(self, text):
        if text.startswith("token_id:"):
            return int(text[9:])
        return self.texts.get(text.strip(), -1)

    def _listed(self, answer):
        if not self.openai:
            first = answer["completion_probabilities"][0]
            entries = first.get("top_logprobs") or first.get("probs") or []
            return [(self._token(e), e["logprob"] if "logprob" in e else math.log(e["prob"]) if e["prob"] > 0
                     else -math.inf)
                    for e in entries]
        top = answer["choices"][0]["logprobs"]["top_logprobs"][0]
        return [(self._by_text(text), p) for text, p in top.items()]
