// Text to throw at whatever reads YAML: pieces of manifests in any order, and anything at all.
import fc from "fast-check";

const pieces = [
  ...[
    "---\n",
    "---",
    "--- ",
    "...\n",
    "%YAML 1.1\n",
    "%TAG ! x\n",
    "\uFEFF",
    "\r\n",
    "\n",
    "  ",
    "\t",
    "- ",
    ": ",
    "? ",
    "a",
  ],
  ...[
    "apiVersion: v1\n",
    "kind: Pod\n",
    "kind: List\nitems:\n",
    "metadata:\n",
    "  name: x\n",
    "  namespace: y\n",
    "status: {}\n",
  ],
  ...[
    "&a ",
    "*a ",
    "!!str ",
    "!<x> ",
    "|\n",
    ">-\n",
    "[",
    "]",
    "{",
    "}",
    "'",
    '"',
    "#",
    ",",
    "<<: *a\n",
    "__proto__: x\n",
  ],
  ...["\0", "\ud800", "é"],
];

export const yamlLike: fc.Arbitrary<string> = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.array(fc.constantFrom(...pieces), { maxLength: 25 }).map((parts) => parts.join("")),
);
