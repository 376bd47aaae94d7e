// What Kubernetes accepts as names and labels: the syntax of apimachinery's validation package. Pure.
// Asked again here because files and broken API servers are inputs too, and names end up in rules and logs.

const subdomain = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const labelName = /^[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?$/;

/** IsDNS1123Subdomain: the name of nodes, pods, EgressIPs, and the prefix of a label key. */
export function isSubdomain(text: string): boolean {
  return text.length <= 253 && subdomain.test(text);
}

/** IsDNS1123Label: the name of a namespace. */
export function isDnsLabel(text: string): boolean {
  return text.length <= 63 && !text.includes(".") && subdomain.test(text);
}

/** IsQualifiedName: `name` or `dns.prefix/name`. */
export function isLabelKey(text: string): boolean {
  const slash = text.indexOf("/");
  if (slash < 0) return labelName.test(text);
  return isSubdomain(text.slice(0, slash)) && labelName.test(text.slice(slash + 1));
}

/** IsValidLabelValue. */
export function isLabelValue(text: string): boolean {
  return text === "" || labelName.test(text);
}

/** The order of names in everything that reaches text: by code unit, the same under any locale. */
export function byCodeUnit(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
