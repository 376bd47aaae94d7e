// The README says what the program takes: every setting with its default, every command. A row that differs is shown as it has to be.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { OPTIONS } from "../agent/config.ts";

const root = path.join(import.meta.dirname, "..");
const readme = readFileSync(path.join(root, "README.md"), "utf8");
const code = (text: string) => `\`${text}\``;

const rowOf = (...cells: readonly string[]) => `| ${cells.join(" | ")} |`;

const settings = OPTIONS.map(({ flag, value, fallback, otherwise, help }) =>
  rowOf(
    code(`--${flag}`),
    // A bar would end the cell.
    value.includes("|") ? value.split("|").map(code).join(" or ") : value,
    fallback === undefined ? (otherwise ?? "none, required") : fallback.split(",").map(code).join(", "),
    help,
  ),
);

describe("README", () => {
  test.each(settings)("has the setting %s", (row) => {
    expect(readme.split("\n")).toContain(row);
  });

  test("has no setting that is gone", () => {
    const listed = [...readme.matchAll(/^\| `--([a-z-]+)`/gm)].map((found) => found[1]);
    expect(listed).toEqual(OPTIONS.map(({ flag }) => flag));
  });

  test("has every command", () => {
    const main = path.join(root, "agent/main.ts");
    const help = spawnSync(process.execPath, [main, "--help"], { encoding: "utf8" }).stdout;
    const commands = [...help.matchAll(/^ {2}([a-z]+) \[options\]/gm)].map((found) => found[1]);
    expect(commands).toContain("run");
    const listed = new Set([...readme.matchAll(/^\| `([a-z]+)[^`]*` +\|/gm)].map((found) => found[1]));
    expect(commands.filter((command) => !listed.has(command))).toEqual([]);
  });
});
