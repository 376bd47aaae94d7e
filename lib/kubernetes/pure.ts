// The pure part: shapes, paths, and what the API's bytes say.
export {
  ConfigurationError,
  ParseError,
  type StatusDetails,
  StatusError,
  UnreachableError,
} from "./errors.ts";
export { nameOf, pathOf } from "./paths.ts";
export type * from "./types.ts";
