"""Prints the accessibility tree of the desktop as XML, or a terminal's text.

    accessibility.py [--app-timeout 10] [--timeout 60]   the tree
    accessibility.py --terminal                          {"output": text or null}

One program that hangs or fails costs no more than its own part of the tree:
what was collected of it stays, and its element says truncated="true".
"""

import argparse
import json
import re
import sys
import warnings
from time import monotonic

import gi

gi.require_version("Atspi", "2.0")
from gi.repository import Atspi  # noqa: E402

# The successors of some methods are hidden by others of the same name.
warnings.simplefilter("ignore", DeprecationWarning)

_BASE = "https://accessibility.ubuntu.example.org/ns/"
NAMESPACES = {
    "st": _BASE + "state",
    "attr": _BASE + "attributes",
    "cp": _BASE + "component",
    "doc": _BASE + "document",
    "docattr": _BASE + "document/attributes",
    "txt": _BASE + "text",
    "val": _BASE + "value",
    "act": _BASE + "action",
}
MAX_DEPTH = 50
MAX_CHILDREN = 1024
MAX_ROWS = MAX_COLUMNS = 512  # of a spreadsheet's visible part
CALL_TIMEOUT = 1.0

# Object replacement marks, and what XML 1.0 cannot hold.
_DROP = re.compile("[\ufffc\ufffd]|[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NOT_NAME = re.compile("[^A-Za-z0-9_.-]")


def clean(text):
    return _DROP.sub("", text or "")


def xml_text(text):
    text = clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("\r", "&#13;")


def xml_value(text):
    return xml_text(text).replace('"', "&quot;").replace("\n", "&#10;").replace("\t", "&#9;")


def xml_name(text, fallback):
    name = _NOT_NAME.sub("-", text.strip().replace(" ", "-")) if text else ""
    if not name:
        return fallback
    return name if name[0].isalpha() or name[0] == "_" else "_" + name


class Expired(Exception):
    """No more time for this program."""


class Walk:
    def __init__(self, app_timeout, timeout):
        self.out = []
        self.app_timeout = app_timeout
        self.end = monotonic() + timeout
        self.deadline = self.end

    def ask(self, function, *args, default=None):
        """One call to a program; any failure of it is the default value."""
        begin = monotonic()
        if begin > self.deadline:
            raise Expired
        try:
            answer = function(*args)
            return default if answer is None else answer
        except Exception:
            # A quick failure is about this one object (often it is gone by
            # now); a slow one means that the program does not answer at all.
            if monotonic() - begin > CALL_TIMEOUT * 0.8:
                raise Expired from None
            return default

    def states(self, node):
        found = self.ask(node.get_state_set)
        return {} if found is None else {state: True for state in found.get_states()}

    def attributes(self, node, states, role):
        """{qualified name: value}; sanitized, hence also freed of doubles."""
        ask = self.ask
        values = {"name": ask(node.get_name, default="")}
        for state in states:
            values["st:" + xml_name(state.value_nick.replace("-", "_"), "unknown")] = "true"
        for key, value in (ask(node.get_attributes, default={}) or {}).items():
            values["attr:" + xml_name(key, "unknown")] = value
        interfaces = set(ask(node.get_interfaces, default=[]))
        if "Component" in interfaces and Atspi.StateType.VISIBLE in states and Atspi.StateType.SHOWING in states:
            box = ask(node.get_extents, Atspi.CoordType.SCREEN)
            if box is not None:
                values["cp:screencoord"] = "(%d, %d)" % (box.x, box.y)
                values["cp:size"] = "(%d, %d)" % (box.width, box.height)
        if "Document" in interfaces:
            values["doc:locale"] = ask(Atspi.Document.get_locale, node, default="")
            for key, value in (ask(node.get_document_attributes, default={}) or {}).items():
                values["docattr:" + xml_name(key, "unknown")] = value
        if "Value" in interfaces:
            for key, get in (
                ("value", node.get_current_value),
                ("min", node.get_minimum_value),
                ("max", node.get_maximum_value),
                ("step", node.get_minimum_increment),
            ):
                number = ask(get)
                if number is not None:
                    values["val:" + key] = "%s" % number
        if "Action" in interfaces:
            for index in range(min(16, ask(node.get_n_actions, default=0))):
                action = ask(node.get_action_name, index, default="")
                if action:
                    name = xml_name(action, "unknown")
                    values["act:%s_desc" % name] = ask(node.get_action_description, index, default="")
                    values["act:%s_kb" % name] = ask(node.get_key_binding, index, default="")
        return values, interfaces

    def text(self, node):
        count = self.ask(node.get_character_count, default=0)
        # The class's method: the node's own get_text is a deprecated other one.
        return self.ask(Atspi.Text.get_text, node, 0, count, default="") if count > 0 else ""

    def node(self, node, depth, program):
        role = self.ask(node.get_role_name, default="")
        states = self.states(node)
        values, interfaces = self.attributes(node, states, role)
        tag = xml_name(role, "unknown")
        out = self.out
        out.append("<" + tag + "".join(' %s="%s"' % (key, xml_value(value)) for key, value in values.items()) + ">")
        # The element is closed whatever happens inside: what was collected
        # before the time ran out has to stay well-formed.
        try:
            if "Text" in interfaces:
                out.append(xml_text(self.text(node)))
            if depth < MAX_DEPTH:
                for child in self.children(node, role, states, interfaces, program):
                    self.node(child, depth + 1, program)
        finally:
            out.append("</" + tag + ">")

    def children(self, node, role, states, interfaces, program):
        count = self.ask(node.get_child_count, default=0)
        if (
            "Table" in interfaces
            and Atspi.StateType.MANAGES_DESCENDANTS in states
            and (program == "soffice" or not 0 <= count <= MAX_CHILDREN)
        ):
            # A sheet has millions of cells, all of them children.
            yield from self.cells(node)
            return
        for index in range(min(count, MAX_CHILDREN)):
            child = self.ask(node.get_child_at_index, index)
            if child is not None:
                yield child

    def cells(self, table):
        box = self.ask(table.get_extents, Atspi.CoordType.SCREEN)
        if box is None:
            return
        corner = self.ask(table.get_accessible_at_point, box.x + 1, box.y + 1, Atspi.CoordType.SCREEN)
        row, first = 0, 0
        if corner is not None:
            index = self.ask(corner.get_index_in_parent, default=-1)
            if index >= 0:
                row = max(0, self.ask(table.get_row_at_index, index, default=0))
                first = max(0, self.ask(table.get_column_at_index, index, default=0))
        for row in range(row, row + MAX_ROWS):
            shown = False
            for column in range(first, first + MAX_COLUMNS):
                cell = self.ask(table.get_accessible_at, row, column)
                if cell is None or Atspi.StateType.SHOWING not in self.states(cell):
                    break
                shown = True
                yield cell
            if not shown:
                return

    def application(self, app):
        self.deadline = min(self.end, monotonic() + self.app_timeout)
        start = len(self.out)
        reason = None
        try:
            self.node(app, 1, self.ask(app.get_name, default=""))
        except Expired:
            reason = "timeout"
        except Exception as error:  # never let one program fail the others
            reason = type(error).__name__
        if reason is not None:
            if len(self.out) == start:
                self.out += ['<application name="">', "</application>"]
            head = self.out[start]
            self.out[start] = head[:-1] + ' truncated="true">'
            self.out.append("<!-- truncated: %s -->" % reason)

    def tree(self):
        names = "".join(' xmlns:%s="%s"' % pair for pair in NAMESPACES.items())
        desktop = Atspi.get_desktop(0)
        values, _ = self.attributes(desktop, self.states(desktop), "")
        attributes = "".join(' %s="%s"' % (key, xml_value(value)) for key, value in values.items())
        self.out.append("<desktop-frame%s%s>" % (names, attributes))
        for app in programs(self):
            self.application(app)
        self.out.append("</desktop-frame>")
        return "".join(self.out)


def programs(walk):
    desktop = Atspi.get_desktop(0)
    walk.deadline = walk.end
    for index in range(walk.ask(desktop.get_child_count, default=0)):
        walk.deadline = walk.end
        try:
            app = walk.ask(desktop.get_child_at_index, index)
        except Expired:
            continue
        if app is not None:
            yield app


def focused_terminal(walk, node, depth):
    """The text of the focused terminal under this node, or None."""
    role = walk.ask(node.get_role)
    if role == Atspi.Role.TERMINAL:
        if Atspi.StateType.FOCUSED in walk.states(node):
            return clean(walk.text(node)).rstrip()
        return None
    # Web pages and documents are large and hold no terminals.
    if depth > 25 or role in (Atspi.Role.DOCUMENT_WEB, Atspi.Role.DOCUMENT_FRAME, Atspi.Role.DOCUMENT_TEXT):
        return None
    for index in range(min(walk.ask(node.get_child_count, default=0), 100)):
        child = walk.ask(node.get_child_at_index, index)
        if child is not None:
            text = focused_terminal(walk, child, depth + 1)
            if text is not None:
                return text
    return None


def terminal(walk):
    for app in programs(walk):
        walk.deadline = min(walk.end, monotonic() + walk.app_timeout)
        try:
            for index in range(min(walk.ask(app.get_child_count, default=0), 100)):
                window = walk.ask(app.get_child_at_index, index)
                if window is not None and Atspi.StateType.ACTIVE in walk.states(window):
                    text = focused_terminal(walk, window, 0)
                    if text is not None:
                        return text
        except Expired:
            continue
    return None


def main():
    parser = argparse.ArgumentParser(description="Print the accessibility tree as XML.")
    parser.add_argument("--app-timeout", type=float, default=10.0, help="seconds for one program")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for all programs")
    parser.add_argument("--terminal", action="store_true", help="print the focused terminal's text as JSON instead")
    options = parser.parse_args()
    sys.setrecursionlimit(10000)
    Atspi.init()
    Atspi.set_timeout(int(CALL_TIMEOUT * 1000), int(CALL_TIMEOUT * 2000))
    walk = Walk(options.app_timeout, options.timeout)
    if options.terminal:
        result = json.dumps({"output": terminal(walk)})
    else:
        result = walk.tree()
    sys.stdout.buffer.write(result.encode("utf-8") + b"\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
