#!/usr/bin/env python3
"""Lists comments whose first words leave the reader without a subject.

  comments.py [--root ROOT]

A comment is read without the code around it, so it begins with its subject:
not "Of a lost peer ...", "Likewise" or "Whoever waits ...". The check reads the
C, C++, Python, shell and CMake files of FOLDERS, prints each comment that
opens with one of OPENERS, and ends with 1 when there is one. A comment block is
judged by its first line; trailing comments and docstrings count as blocks.
"""

import argparse
import ast
import collections
import io
import pathlib
import re
import sys
import tokenize

FOLDERS = ("include", "src", "backends", "ops", "plugins", "python", "tools",
           "tests", "examples")

# Headers that tests keep as they were published.
FROZEN = ("tests/abi/v1_0", "tests/abi/v1_65535")

OPENERS = ("also", "and", "as above", "both", "but", "ditto", "he", "it",
           "its", "likewise", "of", "one that", "or", "same", "that", "the one",
           "the ones", "the other", "the others", "the same", "their", "them",
           "they", "those", "what", "whatever", "which", "whichever", "who",
           "whoever", "whom", "whose")
OPENER = re.compile(rf"(?:{'|'.join(OPENERS)})(?![\w-])", re.IGNORECASE)

C_SUFFIXES = (".c", ".cc", ".h", ".def")
# In order of priority: what starts first at a position is skipped or taken.
C_TOKEN = re.compile(
    r'R"(?P<mark>[^\s()\\]{0,16})\(.*?\)(?P=mark)"'  # raw string
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![\w])'(?:\\.|[^'\\\n])*'"  # a character, no digit separator
    r"|(?P<line>//(?:\\\n|[^\n])*)"
    r"|(?P<block>/\*.*?\*/)", re.DOTALL)
CMAKE_TOKEN = re.compile(
    r'\[(?P<mark>=*)\[.*?\](?P=mark)\]'
    r'|"(?:\\.|[^"\\])*"'
    r"|(?P<block>#\[(?P<fill>=*)\[.*?\](?P=fill)\])"
    r"|(?P<line>#[^\n]*)", re.DOTALL)
SHELL_TOKEN = re.compile(
    r"\\.|'[^']*'" r'|"(?:\\.|[^"\\])*"'
    r"|(?<![^\s;&|()])(?P<line>#[^\n]*)", re.DOTALL)

# (line, whether code stands before it on that line, text)
Comment = collections.namedtuple("Comment", "line trailing text")


def comments_by_tokens(token, text):
    """Every comment of a text whose tokens this expression finds."""
    for hit in token.finditer(text):
        part = hit.groupdict().get("line") or hit.groupdict().get("block")
        if not part:
            continue
        before = text[text.rfind("\n", 0, hit.start()) + 1:hit.start()]
        yield Comment(text.count("\n", 0, hit.start()) + 1,
                      bool(before.strip()), part)


def python_comments(text):
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            before = token.line[:token.start[1]]
            yield Comment(token.start[0], bool(before.strip()), token.string)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef,
                             ast.AsyncFunctionDef)) and ast.get_docstring(node):
            yield Comment(node.body[0].lineno, True, ast.get_docstring(node))


def read_comments(path, text):
    """All comments of a file, or None for a language without a rule here."""
    name = path.name.removesuffix(".in")
    first_line = text.partition("\n")[0]
    if name.endswith(C_SUFFIXES):
        return comments_by_tokens(C_TOKEN, text)
    if name == "CMakeLists.txt" or name.endswith(".cmake"):
        return comments_by_tokens(CMAKE_TOKEN, text)
    if name.endswith(".py"):
        return python_comments(text)
    if name.endswith(".sh") or re.match(r"#!.*\b(ba|da)?sh\b", first_line):
        return comments_by_tokens(SHELL_TOKEN, text)
    return None


def words(comment):
    """The text of a comment without the signs that mark it."""
    return re.sub(r"^[/*!<#\s\[=]+", "", comment.text)


def blocks(comments):
    """The first comment of each block of lines."""
    last = None
    for comment in sorted(comments):
        if comment.text.startswith("#!"):  # the interpreter of a script
            continue
        follows = (last and not comment.trailing and
                   comment.line == last.line + 1 + last.text.count("\n"))
        last = comment
        if not follows:
            yield comment


def listed(root):
    """(file, comment) for each comment that opens without a subject."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if not path.is_file() or "__pycache__" in path.parts:
                continue
            try:
                text = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue
            for comment in blocks(read_comments(path, text) or ()):
                if OPENER.match(words(comment)):
                    yield path.relative_to(root), comment


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[2])
    options = parser.parse_args(arguments)
    counts = collections.Counter()
    for path, comment in listed(options.root):
        if any(path.is_relative_to(folder) for folder in FROZEN):
            continue
        counts["/".join(path.parts[:2][:len(path.parts) - 1])] += 1
        shown = words(comment).split("\n")[0].rstrip(" */]=")
        print(f"{path.as_posix()}:{comment.line}: {shown}")
    for folder, count in sorted(counts.items()):
        print(f"{folder}: {count}")
    print(f"comments: {counts.total()} open without their subject")
    return 1 if counts else 0


if __name__ == "__main__":
    sys.exit(main())
