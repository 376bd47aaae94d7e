// An Explanation as text for a person: what was asked about, why it has no egress IP, then each way step by step. Pure.
// A line is too long for a table's columns: rules are printed as their tools print them, to be searched for.
import type { Account, Explanation, Verdict } from "../telemetry/explain/account.ts";

export function explanationText({ summary, node, whyNot, accounts, notes }: Explanation): string {
  const blocks = [
    [`${summary}; asked of ${node}`],
    ...(whyNot.length === 0
      ? []
      : [whyNot.flatMap(({ text, remedy }) => [`why not: ${text}`, `  to do: ${remedy}`])]),
    ...accounts.map(accountLines),
    ...(notes.length === 0 ? [] : [notes.map((note) => `note: ${note}`)]),
  ];
  return `${blocks.map((lines) => lines.join("\n")).join("\n\n")}\n`;
}

function accountLines({ about, steps, verdict }: Account): readonly string[] {
  const width = Math.max(0, ...steps.map(({ step }) => step.length));
  return [
    about,
    ...steps.map(
      ({ step, object, found, verdict: means }) => `  ${step.padEnd(width)}  ${object}: ${found} -> ${means}`,
    ),
    `  => ${verdictLine(verdict)}`,
    ...(verdict.remedy === undefined ? [] : [`     to do: ${verdict.remedy}`]),
  ];
}

function verdictLine({ outcome, link, source, at, why }: Verdict): string {
  const as = source === undefined ? "" : ` as ${source}`;
  switch (outcome) {
    case "leaves":
      return `leaves by ${link}${as}, ${why}`;
    case "stays":
      return `stays in the cluster${as}: ${why}`;
    case "held back":
      return `held back at ${at}: ${why}`;
    case "nothing":
      return why;
    default:
      return `${outcome}: ${why}`;
  }
}
