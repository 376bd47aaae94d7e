// The lock that iptables-legacy takes, held by somebody else. Nothing in; words to run a command under it, and how to let it go, out.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";

/** Holds the lock in a mount namespace that has a /run of its own; `enter` are the words that lead into it. */
export async function holdLock() {
  const take =
    "mount -t tmpfs tmpfs /run && touch /run/xtables.lock && exec flock /run/xtables.lock sh -c 'echo held; exec cat'";
  const holder: ChildProcess = spawn("unshare", ["--mount", "sh", "-c", take], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  if (holder.stdout === null || holder.stdin === null) throw new Error("no pipes");
  await once(holder.stdout, "data");
  // The namespace has to outlive the lock, so another process stays in it.
  const stay = spawn(
    "nsenter",
    ["--target", String(holder.pid), "--mount", "sh", "-c", "echo here; exec cat"],
    { stdio: ["pipe", "pipe", "inherit"] },
  );
  await once(stay.stdout, "data");
  return {
    enter: ["nsenter", "--target", String(stay.pid), "--mount"],
    release: async () => {
      holder.stdin?.end();
      await once(holder, "close");
    },
    [Symbol.asyncDispose]: async () => {
      holder.stdin?.end();
      stay.stdin.end();
      if (stay.exitCode === null) await once(stay, "close");
    },
  };
}
