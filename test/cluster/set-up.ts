// Has the API server built while other tests run, where this machine has none yet: it takes minutes, and the files of this project,
// which are the last, wait for what is left of them. Nothing in or out.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { getKubeApiserver, kubeCache, presentKubePrograms } from "../support/kube-programs.ts";

export function setup(): (() => Promise<void>) | undefined {
  if (presentKubePrograms() !== undefined) return undefined;
  // A group of its own, so that its compilers can be ended with it.
  const build = spawn("nice", ["-n", "19", "sh", getKubeApiserver, kubeCache()], {
    detached: true,
    stdio: "ignore",
  });
  const ended = once(build, "exit");
  ended.catch(() => undefined);
  const end = () => {
    if (build.exitCode === null && build.signalCode === null && build.pid !== undefined)
      process.kill(-build.pid, "SIGTERM");
  };
  // A run that is interrupted does not come to its end.
  process.once("exit", end);
  return async () => {
    process.off("exit", end);
    end();
    await ended.catch(() => undefined);
  };
}
