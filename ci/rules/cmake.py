"""The libraries of a tree and what they link, from its CMakeLists.txt files alone: every branch of every if()
is taken, so that a backend counts whose compiler is not here. Understands what lists are made of: set,
list(APPEND), foreach, functions and cmake_parse_arguments."""
import os
import re

COMMAND = re.compile(r"\s*(\w+)\s*\(")
REFERENCE = re.compile(r"\$\{(\w+)\}")
OBJECTS = re.compile(r"\$<TARGET_OBJECTS:([\w-]+)>")


def commands(text):
    """[(line, name, [argument, ...])]: an argument with its quotes, if it has any."""
    found, at, line = [], 0, 1
    while True:
        match = re.compile(r"[ \t]*(#[^\n]*|\n)").match(text, at)
        if match:
            line += match[0].count("\n")
            at = match.end()
            continue
        match = COMMAND.match(text, at)
        if not match:
            return found
        line += match[0].count("\n")
        first, at, depth, words = line, match.end(), 1, []
        while depth and at < len(text):
            piece = re.compile(r'\s+|#[^\n]*|"(?:[^"\\]|\\.)*"|[()]|(?:[^\s()"#\\]|\\.)+',
                               re.S).match(text, at)
            if not piece:
                break
            line += piece[0].count("\n")
            at = piece.end()
            depth += (piece[0] == "(") - (piece[0] == ")")
            if not piece[0].isspace() and piece[0][0] not in "#()":
                words.append(piece[0])
        found.append((first, match[1], words))


class Scope(dict):
    def __init__(self, parent=None):
        super().__init__()
        self.parent = parent

    def value(self, name):
        if name in self:
            return self[name]
        return self.parent.value(name) if self.parent is not None else []


class Build:
    """targets: name -> (file, line, whether a test); links: (target, library, file, line), for libraries of
    this tree."""

    def __init__(self, tree):
        self.tree, self.functions, self.targets, self.uses = tree, {}, {}, []
        self.running, self.conditions = [], []  # the functions and the if()s that are open
        self._file("CMakeLists.txt", Scope())
        self.links = [use for use in self.uses if use[1] in self.targets]

    def graph(self):
        graph = {name: set() for name in self.targets}
        for target, library, _, _ in self.links:
            graph.setdefault(target, set()).add(library)
        return graph

    def _file(self, file, scope):
        if self.tree.has(file):
            scope["CMAKE_CURRENT_SOURCE_DIR"] = [os.path.dirname(file)]
            self._run(commands(self.tree.text(file)), scope, file)

    def _expand(self, words, scope):
        out = []
        for word in words:
            quoted = word.startswith('"')
            text = REFERENCE.sub(lambda m: ";".join(scope.value(m[1])), word[1:-1] if quoted else word)
            out += [text] if quoted else [part for part in text.split(";") if part]
        return out

    def _block(self, body, at, opening, closing):
        depth, start = 1, at + 1
        while depth and at + 1 < len(body):
            at += 1
            depth += (body[at][1] == opening) - (body[at][1] == closing)
        return body[start:at], at

    def _run(self, body, scope, file):
        at = -1
        while at + 1 < len(body):
            at += 1
            line, name, raw = body[at]
            name = name.lower()
            if name in ("function", "macro"):
                inner, at = self._block(body, at, name, "end" + name)
                self.functions[raw[0].lower()] = (raw[1:], inner, file)
            elif name == "foreach":
                inner, at = self._block(body, at, "foreach", "endforeach")
                words = self._expand(raw, scope)
                if words[1:3] == ["IN", "LISTS"]:
                    items = [item for variable in words[3:] for item in scope.value(variable)]
                else:
                    items = words[3:] if words[1:3] == ["IN", "ITEMS"] else words[1:]
                for item in items:
                    scope[words[0]] = [item]
                    self._run(inner, scope, file)
            elif name == "if":
                self.conditions.append("BUILD_TESTING" in raw and "NOT" not in raw[:1])
            elif name == "endif" and self.conditions:
                self.conditions.pop()
            elif name in self.functions:
                self._call(name, self._expand(raw, scope), scope, file, line)
            else:
                self._command(name, self._expand(raw, scope), scope, file, line)

    def _call(self, name, words, scope, file, line):
        if len(self.running) > 20:
            return
        parameters, body, _ = self.functions[name]
        inner = Scope(scope)
        for parameter, word in zip(parameters, words):
            inner[parameter] = [word]
        inner["ARGN"] = words[len(parameters):]
        self.running.append((name, line))
        self._run(body, inner, file)
        self.running.pop()

    def _command(self, name, words, scope, file, line):
        line = self.running[0][1] if self.running else line
        if name == "set" and words:
            where = scope.parent if words[-1] == "PARENT_SCOPE" and scope.parent is not None else scope
            values = words[1:-1] if words[-1] == "PARENT_SCOPE" else words[1:]
            where[words[0]] = values[:values.index("CACHE")] if "CACHE" in values else values
        elif name == "list" and words[:1] == ["APPEND"]:
            scope[words[1]] = scope.value(words[1]) + words[2:]
        elif name == "cmake_parse_arguments":
            self._parse_arguments(words, scope)
        elif name in ("add_library",
                      "add_executable") and words and "ALIAS" not in words and "IMPORTED" not in words:
            test = any(self.conditions) or any(function in ("assay_test", "assay_fuzz")
                                               for function, _ in self.running)
            self.targets.setdefault(words[0], (file, line, test))
        elif name == "add_subdirectory" and words:
            self._file(os.path.normpath(os.path.join(os.path.dirname(file), words[0], "CMakeLists.txt")),
                       Scope(scope))
        elif name == "include" and words and words[0].endswith(".cmake"):
            self._file(os.path.normpath(os.path.join(os.path.dirname(file), words[0])), scope)
        if name == "target_link_libraries":
            self.uses += [(words[0], library, file, line) for library in words[1:]]
        elif name in ("add_library", "add_executable", "target_sources"):
            self.uses += [(words[0], library, file, line) for word in words[1:]
                          for library in OBJECTS.findall(word)]

    def _parse_arguments(self, words, scope):
        prefix, options, single, many = words[0], words[1].split(";"), words[2].split(";"), words[3].split(";")
        for key in options + single + many:
            scope[f"{prefix}_{key}"] = []
        key, room = None, 0
        for word in words[4:]:
            if word in options:
                scope[f"{prefix}_{word}"], key = ["TRUE"], None
            elif word in single or word in many:
                key, room = word, 1 if word in single else 1 << 30
            elif key is not None and room > 0:
                scope[f"{prefix}_{key}"] = scope[f"{prefix}_{key}"] + [word]
                room -= 1
