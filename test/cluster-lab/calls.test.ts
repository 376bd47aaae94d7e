// Requests as the fault proxy names them.
import { expect, it } from "vitest";
import { callOf } from "./calls.ts";

it.each([
  ["GET", "/api/v1/pods?limit=500", "list pods"],
  ["GET", "/api/v1/pods?watch=1", "watch pods"],
  ["GET", "/api/v1/namespaces/shop/pods?watch=true", "watch pods in shop"],
  ["GET", "/api/v1/namespaces/shop/pods/a1", "get pods in shop a1"],
  ["GET", "/api/v1/namespaces", "list namespaces"],
  ["GET", "/api/v1/namespaces/shop", "get namespaces shop"],
  ["PUT", "/api/v1/namespaces/shop/finalize", "update namespaces/finalize shop"],
  ["PATCH", "/api/v1/nodes/node1/status", "patch nodes/status node1"],
  ["GET", "/apis/k8s.ovn.org/v1/egressips?watch=0", "list egressips.k8s.ovn.org"],
  ["DELETE", "/apis/k8s.ovn.org/v1/egressips/prod", "delete egressips.k8s.ovn.org prod"],
  ["DELETE", "/api/v1/namespaces/shop/pods", "deletecollection pods in shop"],
  ["POST", "/api/v1/namespaces/default/events", "create events in default"],
  ["POST", "/api/v1/namespaces/a/serviceaccounts/b/token", "create serviceaccounts/token in a b"],
  ["GET", "/apis", "list "],
  ["GET", "/apis/k8s.ovn.org/v1", "list .k8s.ovn.org"],
  ["GET", "/readyz", "list "],
])("%s %s is %s", (method, path, expected) => {
  const { verb, resource, subresource, group, namespace, name } = callOf(method, path, {});
  const what = `${resource}${subresource && `/${subresource}`}${group && `.${group}`}`;
  expect(`${verb} ${what}${namespace && ` in ${namespace}`}${name && ` ${name}`}`).toBe(expected);
});
