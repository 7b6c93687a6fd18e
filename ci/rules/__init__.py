"""The rules of ci/layers: each module has check(tree), which yields its violations as "file:line: rule"."""


def violations(root):
    from rules import arrows, documents, libraries, tolerances, words
    from rules.tree import Tree
    tree = Tree(root)
    return tree, [line for rule in (arrows, libraries, words, tolerances, documents)
                  for line in rule.check(tree)]
