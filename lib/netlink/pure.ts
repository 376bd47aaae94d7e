// The door for code that must not touch the host: parsers and printers.
export { BatchError, ParseError } from "./errors.ts";
export {
  type Family,
  type Hop,
  type Link,
  type LinkAddress,
  parseAddresses,
  parseRoutes,
  parseRules,
  parseVrfs,
  type Route,
  type Rule,
  withVrfs,
} from "./parse.ts";
export { routeSlot, routeWords, ruleWords } from "./print.ts";
