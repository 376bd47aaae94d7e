// What went wrong when perl sent frames, as a SendError without the script in it, which would fill the log with perl.
import { ToolError } from "../exec/index.ts";
import type { Answer } from "./claims.ts";
import { SendError, type SendFailure } from "./errors.ts";

export function checkedIndex(ifindex: number): number {
  if (Number.isInteger(ifindex) && ifindex > 0 && ifindex < 2 ** 31) return ifindex;
  throw new RangeError(`not an interface index: ${ifindex}`);
}

/** Failures of single links: lines `failed IFINDEX WHY`. */
export function failuresIn(lines: readonly string[]): readonly SendFailure[] {
  return lines.flatMap((line) => {
    const [, ifindex, why = ""] = /^failed (\d+) (.+)$/.exec(line) ?? [];
    return ifindex === undefined ? [] : [{ ifindex: Number(ifindex), why }];
  });
}

export function sendError(
  failures: readonly SendFailure[],
  cause?: unknown,
  answers?: readonly Answer[],
): SendError {
  const why = failures.map((failure) => `ifindex ${failure.ifindex}: ${failure.why}`).join("; ");
  return new SendError(why, failures, cause, answers);
}

/** Of a perl that could not do its work at all; any other error is thrown on. */
export function unsent(error: unknown): SendError {
  if (!(error instanceof ToolError)) throw error;
  return new SendError(error.message.replace(error.command, "perl"), [], error);
}
