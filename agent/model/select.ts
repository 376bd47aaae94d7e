// Kubernetes label selectors (metav1.LabelSelector): reading them strictly, and asking whether labels match.
// In: `matchLabels` and `matchExpressions`. Out: a sorted, frozen list that must all hold. Pure.
// Strict because a selector read too widely gives strangers an egress IP: any fault refuses the whole of it.

import { byCodeUnit, isLabelKey, isLabelValue } from "./names.ts";
import { describe, isObject, quote } from "./raw.ts";

type Requirement =
  | { readonly key: string; readonly operator: "In" | "NotIn"; readonly values: readonly string[] }
  | { readonly key: string; readonly operator: "Exists" | "DoesNotExist" };

/** All requirements must hold; none means everything matches. */
export type Selector = readonly Requirement[];

/** What is wrong with one field; the same path and text as in a Problem. */
export interface Fault {
  readonly path: string;
  readonly text: string;
}

export type Labels = Readonly<Record<string, string>>;

/** The selector that matches everything: what a missing podSelector means. */
export const everything: Selector = Object.freeze([]);

/**
 * Whether labels satisfy every requirement. As in Kubernetes, NotIn and DoesNotExist hold when the label is
 * absent. Own properties only: `constructor` is a valid label key.
 */
export function matches(selector: Selector, labels: Labels): boolean {
  return selector.every((requirement) => holds(requirement, labels));
}

function holds(requirement: Requirement, labels: Labels): boolean {
  const value = Object.hasOwn(labels, requirement.key) ? labels[requirement.key] : undefined;
  switch (requirement.operator) {
    case "Exists":
      return value !== undefined;
    case "DoesNotExist":
      return value === undefined;
    case "In":
      return value !== undefined && requirement.values.includes(value);
    case "NotIn":
      return value === undefined || !requirement.values.includes(value);
  }
}

/** What a selector asks for and these labels do not have, and what they have instead. In words; none when it matches. */
export interface Unmet {
  readonly asked: string;
  readonly found: string;
  /** The label that would meet it, where there is only one. */
  readonly label?: string;
}

export function unmet(selector: Selector, labels: Labels): readonly Unmet[] {
  return selector.flatMap((requirement): readonly Unmet[] => {
    if (holds(requirement, labels)) return [];
    const { key } = requirement;
    const found = Object.hasOwn(labels, key) ? `${key}=${labels[key]}` : `no label ${key}`;
    const only = requirement.operator === "In" && requirement.values.length === 1;
    return [
      {
        asked: requirementText(requirement),
        found,
        ...(only ? { label: requirementText(requirement) } : {}),
      },
    ];
  });
}

/** As `kubectl get -l` takes it; `everything` for the selector that does not ask. */
export function selectorText(selector: Selector): string {
  return selector.length === 0 ? "everything" : selector.map(requirementText).join(",");
}

function requirementText(requirement: Requirement): string {
  const { key } = requirement;
  switch (requirement.operator) {
    case "Exists":
      return key;
    case "DoesNotExist":
      return `!${key}`;
    case "In":
      return requirement.values.length === 1
        ? `${key}=${requirement.values[0]}`
        : `${key} in (${requirement.values.join(",")})`;
    case "NotIn":
      return `${key} notin (${requirement.values.join(",")})`;
  }
}

/**
 * Reads a LabelSelector object. `path` is where it stands, `spec.podSelector`, and opens the path of every
 * fault.
 */
export function parseSelector(
  raw: unknown,
  path: string,
): { readonly selector: Selector } | { readonly faults: readonly Fault[] } {
  const faults: Fault[] = [];
  const requirements: Requirement[] = [];
  if (!isObject(raw)) return { faults: [{ path, text: `must be an object, not ${describe(raw)}` }] };
  for (const key of Object.keys(raw))
    if (key !== "matchLabels" && key !== "matchExpressions")
      faults.push({
        path,
        text: `has the unknown field ${quote(key)}; known are matchLabels, matchExpressions`,
      });
  const { matchLabels, matchExpressions } = raw;
  readLabels(matchLabels, `${path}.matchLabels`, requirements, faults);
  readExpressions(matchExpressions, `${path}.matchExpressions`, requirements, faults);
  if (faults.length > 0) return { faults };
  return { selector: Object.freeze(requirements.sort(byText)) };
}

function readLabels(raw: unknown, path: string, out: Requirement[], faults: Fault[]): void {
  if (raw === undefined || raw === null) return;
  if (!isObject(raw)) {
    faults.push({ path, text: `must be an object, not ${describe(raw)}` });
    return;
  }
  for (const [key, value] of Object.entries(raw)) {
    const at = `${path}[${quote(key)}]`;
    if (!isLabelKey(key)) faults.push({ path: at, text: "is not a valid label key" });
    else if (typeof value !== "string" || !isLabelValue(value))
      faults.push({ path: at, text: `must be a label value, not ${describe(value)}` });
    else out.push(Object.freeze({ key, operator: "In", values: Object.freeze([value]) }));
  }
}

function readExpressions(raw: unknown, path: string, out: Requirement[], faults: Fault[]): void {
  if (raw === undefined || raw === null) return;
  if (!Array.isArray(raw)) {
    faults.push({ path, text: `must be a list, not ${describe(raw)}` });
    return;
  }
  for (const [at, item] of raw.entries()) {
    const requirement = readExpression(item, `${path}[${at}]`, faults);
    if (requirement !== undefined) out.push(requirement);
  }
}

function readExpression(raw: unknown, path: string, faults: Fault[]): Requirement | undefined {
  if (!isObject(raw)) {
    faults.push({ path, text: `must be an object, not ${describe(raw)}` });
    return undefined;
  }
  const before = faults.length;
  const { key, operator, values: listed } = raw;
  for (const field of Object.keys(raw))
    if (field !== "key" && field !== "operator" && field !== "values")
      faults.push({ path, text: `has the unknown field ${quote(field)}; known are key, operator, values` });
  if (typeof key !== "string" || !isLabelKey(key))
    faults.push({ path: `${path}.key`, text: `must be a label key, not ${describe(key)}` });
  const values = readValues(listed, `${path}.values`, faults);
  if (operator === "In" || operator === "NotIn") {
    if (values.length === 0 && faults.length === before)
      faults.push({ path: `${path}.values`, text: `must have at least one value with ${operator}` });
  } else if (operator === "Exists" || operator === "DoesNotExist") {
    if (values.length > 0) faults.push({ path: `${path}.values`, text: `must be empty with ${operator}` });
  } else
    faults.push({
      path: `${path}.operator`,
      text: `must be In, NotIn, Exists or DoesNotExist, not ${describe(operator)}`,
    });
  if (faults.length > before || typeof key !== "string") return undefined;
  if (operator === "In" || operator === "NotIn")
    return Object.freeze({ key, operator, values: Object.freeze([...new Set(values)].sort(byCodeUnit)) });
  return Object.freeze({ key, operator: operator as "Exists" | "DoesNotExist" });
}

function readValues(raw: unknown, path: string, faults: Fault[]): readonly string[] {
  if (raw === undefined || raw === null) return [];
  if (!Array.isArray(raw)) {
    faults.push({ path, text: `must be a list, not ${describe(raw)}` });
    return [];
  }
  return raw.filter((value: unknown, at): value is string => {
    if (typeof value === "string" && isLabelValue(value)) return true;
    faults.push({ path: `${path}[${at}]`, text: `must be a label value, not ${describe(value)}` });
    return false;
  });
}

/** Requirements have no order of their own; by text, so that the same selector always prints the same. */
function byText(a: Requirement, b: Requirement): number {
  return byCodeUnit(JSON.stringify(a), JSON.stringify(b));
}
