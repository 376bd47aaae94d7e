// What a request to an API server asks for, by its method and path: the words that RBAC has for it. Pure.

export interface Call {
  readonly verb: "get" | "list" | "watch" | "create" | "update" | "patch" | "delete" | "deletecollection";
  /** "" is the core group, and of paths that are no resource's, as /readyz. */
  readonly group: string;
  /** Plural, as `pods`; "" where the path is no resource's. */
  readonly resource: string;
  readonly subresource: string;
  readonly namespace: string;
  readonly name: string;
  /** With the query. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly contentType: string;
  readonly userAgent: string;
}

type Headers = Readonly<Record<string, string | readonly string[] | undefined>>;

export function callOf(method: string, path: string, headers: Headers): Call {
  const { pathname, searchParams: query } = new URL(path, "https://lab.invalid");
  const words = pathname.split("/").filter(Boolean).map(decodeURIComponent);
  const [root, ...rest] = words;
  const group = root === "apis" ? (rest.shift() ?? "") : "";
  // The version. Without a resource behind it the path is discovery's.
  rest.shift();
  const isNamespaced = rest[0] === "namespaces" && rest.length > 2 && rest[2] !== "finalize";
  const [, namespace = ""] = isNamespaced ? rest.splice(0, 2) : [];
  const isResource = root === "api" || root === "apis";
  const [resource = "", name = "", subresource = ""] = isResource ? rest : [];
  return {
    ...{ verb: verbOf(method, name, query), group, resource, subresource, namespace, name, path, query },
    contentType: String(headers["content-type"] ?? ""),
    userAgent: String(headers["user-agent"] ?? ""),
  };
}

function verbOf(method: string, name: string, query: URLSearchParams): Call["verb"] {
  const isWatch = ["1", "true"].includes(query.get("watch") ?? "");
  switch (method) {
    case "POST":
      return "create";
    case "PUT":
      return "update";
    case "PATCH":
      return "patch";
    case "DELETE":
      return name === "" ? "deletecollection" : "delete";
    default:
      return isWatch ? "watch" : name === "" ? "list" : "get";
  }
}
