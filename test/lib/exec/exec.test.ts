// Tools that behave and tools that do not: big output, no output, no end, no reading of input, not there at all.
import { readFile } from "node:fs/promises";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { follow, run, spawnCounts, ToolError } from "../../../lib/exec/index.ts";
import { until } from "../../support/until.ts";

const sh = (script: string, options?: Parameters<typeof run>[2]) => run("sh", ["-c", script], options);

async function failureOf(running: Promise<unknown>): Promise<ToolError> {
  const error: unknown = await running.catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(ToolError);
  return error as ToolError;
}

async function isAlive(pid: string): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  return stat !== "" && !/\) Z /.test(stat);
}

describe("run", () => {
  it("gives what was printed where, and takes a complaint with status 0 for no failure", async () => {
    expect(await sh("echo out; echo '# Warning: legacy tables present' >&2")).toEqual({
      stdout: "out\n",
      stderr: "# Warning: legacy tables present\n",
      exitCode: 0,
    });
  });

  it("hands words on as they are, never through a shell", async () => {
    const words = ["$(id)", "`id`", "a b", "'", '"', "\\", "*", "\n", "-n", "é", ";", ""];
    expect((await run("printf", ["%s|", ...words])).stdout).toBe(words.map((word) => `${word}|`).join(""));
  });

  it("hands input on as it is, of any length and any characters", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.string({ unit: "grapheme", maxLength: 200 }),
        fc.nat({ max: 3000 }),
        async (text, times) => {
          const input = text.repeat(times);
          expect((await run("cat", [], { input })).stdout).toBe(input);
        },
      ),
      { numRuns: 20 },
    );
  });

  it("runs in the C locale, so that tools print what parsers know", async () => {
    expect((await sh("echo $LC_ALL")).stdout).toBe("C\n");
  });

  it("has an empty input where none is given", async () => {
    expect((await run("cat", [])).stdout).toBe("");
    expect((await run("cat", [], { input: "" })).stdout).toBe("");
  });

  it("takes output of 8 MiB, on both streams at once", async () => {
    const { stdout, stderr } = await sh("head -c 8388608 /dev/zero | tr '\\0' x | tee /dev/stderr");
    expect(stdout).toHaveLength(8388608);
    expect(stderr).toHaveLength(8388608);
  });

  it("does not cut a character that falls between two reads", async () => {
    const input = "é€😀".repeat(300_000);
    const { stdout } = await run("cat", [], { input });
    expect(stdout === input).toBe(true);
  });

  it.each([1, 2, 4, 127, 255])("fails with status %i, and says command and complaint", async (status) => {
    const error = await failureOf(sh(`echo "iptables: no" >&2; exit ${status}`));
    expect(error.exitCode).toBe(status);
    expect(error.stderr).toBe("iptables: no\n");
    expect(error.command).toMatch(/^sh -c /);
    expect(error.message).toMatch(new RegExp(`exit status ${status}: iptables: no$`));
  });

  it("takes a status for an answer where that is said", async () => {
    expect((await sh("echo x; exit 3", { okExitCodes: [0, 3] })).exitCode).toBe(3);
    expect((await failureOf(sh("exit 0", { okExitCodes: [3] }))).exitCode).toBe(0);
  });

  it.each(["no-such-tool", "/no/such/tool", "/dev/null"])(
    "fails when %s cannot be run, and names it",
    async (tool) => {
      const error = await failureOf(run(tool, ["--version"]));
      expect(error.exitCode).toBe(127);
      expect(error.message).toContain(tool);
      expect(error.message).toMatch(/No such file or directory|Permission denied/);
    },
  );

  it("fails when a signal ends the tool", async () => {
    expect((await failureOf(sh("kill -TERM $$"))).exitCode).toBe(143);
  });

  it("kills a tool at its deadline, at once, and says which deadline", async () => {
    const error = await failureOf(sh("echo $$ >&2; echo half; exec sleep 600", { timeoutMs: 100 }));
    expect(error.message).toMatch(/no answer within 100 ms/);
    await until(async () => !(await isAlive(error.stderr.trim())), "the tool to be gone");
  });

  it("does not wait for what the tool started and left behind with its pipes", async () => {
    // Longer than a test may take: who waits for them fails.
    const started = await Promise.all([
      failureOf(sh("sleep 600 & echo $! >&2", { timeoutMs: 100 })),
      failureOf(sh("sleep 600 & echo $! >&2; wait", { timeoutMs: 100 })),
    ]);
    for (const { stderr } of started) if (await isAlive(stderr.trim())) process.kill(Number(stderr));
  });

  it("has the answer with the last words, without waiting for the end, and buries the dead all the same", async () => {
    const { stdout, exitCode } = await sh("echo $$; echo done; exec sleep 60", { until: "done\n" });
    const pid = Number.parseInt(stdout, 10);
    expect({ stdout, exitCode }).toEqual({ stdout: `${pid}\ndone\n`, exitCode: 0 });
    expect(await isAlive(String(pid))).toBe(true);
    process.kill(pid, "SIGKILL");
    const isGone = () =>
      readFile(`/proc/${pid}/stat`).then(
        () => false,
        () => true,
      );
    await until(isGone, "the tool to be waited for");
  });

  it("goes by the status of a tool that ended without its last words", async () => {
    expect((await failureOf(sh("echo don; echo no >&2; exit 3", { until: "done\n" }))).message).toMatch(
      /exit status 3: no$/,
    );
    expect(await sh("printf done", { until: "done\n" })).toMatchObject({ stdout: "done", exitCode: 0 });
    expect((await failureOf(sh("exec sleep 60", { until: "done\n", timeoutMs: 100 }))).message).toMatch(
      /100 ms/,
    );
  });

  it("survives a tool that ends without reading its input", async () => {
    const input = "x".repeat(8 * 1024 * 1024);
    expect((await sh("exit 0", { input })).exitCode).toBe(0);
    expect((await failureOf(sh("echo no >&2; exit 2", { input }))).message).toMatch(/exit status 2: no$/);
    expect((await sh("exec 0<&-; echo closed", { input })).stdout).toBe("closed\n");
    expect((await run("cat", [], { input: "next" })).stdout).toBe("next");
  });

  it("runs tools side by side, and gives each its own answer", async () => {
    const script = (n: number) => `read line; echo ${n} $line; test $((${n} % 3)) -ne 0`;
    const many = await Promise.all(
      Array.from({ length: 60 }, (_, n) => sh(script(n), { input: `in${n}\n`, okExitCodes: [0, 1] })),
    );
    expect(many.map(({ stdout, exitCode }) => `${stdout.trim()} ${exitCode}`)).toEqual(
      Array.from({ length: 60 }, (_, n) => `${n} in${n} ${n % 3 === 0 ? 1 : 0}`),
    );
  });

  it("is not held up by a slow one", async () => {
    const blocked = sh("exec sleep 30", { timeoutMs: 300 }).catch((error: unknown) => error);
    expect((await run("echo", ["quick"])).stdout).toBe("quick\n");
    expect(await blocked).toBeInstanceOf(ToolError);
  });

  it("starts anew what starts tools, when that was killed under it", async () => {
    const starter = Number((await sh("echo $PPID")).stdout);
    // Nobody is left to end it, so it ends by itself soon.
    const hanging = failureOf(run("sleep", ["1"]));
    process.kill(starter, "SIGKILL");
    expect((await hanging).message).toMatch(/sleep 1: could not be run/);
    const next = Number((await sh("echo $PPID")).stdout);
    expect(next).not.toBe(starter);
  });

  it("counts what it starts, by tool", async () => {
    const { true: before = 0 } = spawnCounts();
    await Promise.all([run("true", []), run("true", [])]);
    expect(spawnCounts()["true"]).toBe(before + 2);
  });
});

describe("follow", () => {
  /** Follows a script to its end. */
  function followed(script: string): Promise<{ lines: string[]; why: string }> {
    return new Promise((resolve) => {
      const lines: string[] = [];
      follow("sh", ["-c", script], {
        line: (line) => lines.push(line),
        end: (why) => resolve({ lines, why }),
      });
    });
  }

  it("gives whole lines whatever the pieces they come in, and a last one without its newline", async () => {
    const pieces = ["a\\nb", "c\\n\\nd\\303", "\\251\\n", "last"].map((piece) => `printf '${piece}'`);
    expect((await followed(pieces.join("; sleep 0.05; "))).lines).toEqual(["a", "bc", "", "dé", "last"]);
  });

  it("gives a hundred thousand lines", async () => {
    const { lines } = await followed("seq 100000");
    expect([lines.length, lines[0], lines.at(-1)]).toEqual([100000, "1", "100000"]);
  });

  it.each([
    ["exit 0", /status 0/],
    ["exit 3", /code 3/],
    ["kill -KILL $$", /SIGKILL/],
  ])("says why it ended: %s", async (script, why) => {
    expect((await followed(script)).why).toMatch(why);
  });

  it("ends at once when the tool is not there", async () => {
    const why = await new Promise((resolve) => {
      follow("no-such-tool", [], { line: () => {}, end: resolve });
    });
    expect(why).toMatch(/no-such-tool/);
  });

  it("ends the tool when closed, and calls nothing any more", async () => {
    const heard: string[] = [];
    const follower = follow("sh", ["-c", "while :; do echo x; done"], {
      line: () => heard.push("line"),
      end: () => heard.push("end"),
    });
    await until(() => heard.length > 0, "the first line");
    follower.close();
    const before = heard.length;
    await until(async () => !(await isAlive(String(follower.pid))), "the tool to be gone");
    // Whatever was on its way would have come before the answer of a tool that is started now.
    await run("true", []);
    expect(heard).toHaveLength(before);
    expect(heard).not.toContain("end");
  });

  it("gives the tool what is written, and loses nothing but that on one that has ended", async () => {
    const lines: string[] = [];
    let ended = false;
    const on = {
      line: (line: string) => void lines.push(line),
      end: () => {
        ended = true;
      },
    };
    const follower = follow("sh", ["-c", "read one; read two; echo $two $one"], on, { input: true });
    follower.write("a\n");
    follower.write("b\n");
    await until(() => ended, "the tool to end");
    expect(lines).toEqual(["b a"]);
    follower.write("c\n");
    // Without being asked for it a tool has nothing to read.
    const { lines: none } = await followed("read one; echo $?");
    expect(none).toEqual(["1"]);
  });

  it("can be closed from within its own line", async () => {
    const lines: string[] = [];
    const follower = follow("sh", ["-c", "printf 'a\\nb\\nc\\n'; exec sleep 60"], {
      line: (line) => {
        lines.push(line);
        follower.close();
      },
      end: () => lines.push("end"),
    });
    await until(
      async () => lines.length > 0 && !(await isAlive(String(follower.pid))),
      "the tool to be gone",
    );
    await run("true", []);
    expect(lines).toEqual(["a"]);
  });
});
