// Compiled, never run: what the types allow, and what they refuse.

import {
  ConflictError,
  VecallClient,
  VecallError,
  VecallResponseError,
  type AnyResponseError,
  type ExportLine,
  type JsonObject,
  type JsonValue,
  type Memory,
  type NewMemory,
  type Search,
} from "vecall-client";

type Equal<A, B> =
  (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function isTrue<T extends true>(): T | undefined {
  return undefined;
}

const client = new VecallClient({ url: "http://localhost:8765", token: () => "t" });
const alice = client.user("hotel", "alice");
new VecallClient({ url: new URL("http://localhost"), token: async () => "t", fetch });

// @ts-expect-error url is needed
new VecallClient({ token: "t" });
// @ts-expect-error a user comes from a client
new (alice.constructor as typeof import("vecall-client").UserMemory)();
// @ts-expect-error a token is no number
new VecallClient({ url: "", token: 1 });

export async function requests(signal?: AbortSignal): Promise<void> {
  await alice.addMemories({ memories: ["text", { content: "x", timestamp: new Date() }] });
  await alice.addMemories({ memories: [{ content: { parts: [{ text: "x" }] }, importance: 0.5 }] });
  await alice.addMemories({ memories: [{ content: "x", custom_metadata: { n: 1n, a: [{}] } }] });
  await alice.addEvents({ messages: [{ role: "user", content: null }] }, { signal });
  const readonlyIds: readonly string[] = ["1"];
  await alice.markUsed({ ids: readonlyIds });
  const conditions = { year: { $gte: 2025, $in: [1n, "x", null] }, topic: "tea", none: null, tags: ["a", 1], t: { $contains: "x", $all: ["a"], $any: [1n] } };
  await alice.searchMemories({ query: "x", filter: { metadata: conditions, kind: ["a", "b"] } });
  await alice.searchMemories({ query: "x", filter: { metadata: { $or: [conditions, { $not: { "a.b": 1 } }] } } });
  await alice.deleteWhere({ filter: { metadata: conditions } });
  await alice.listMemories();
  await alice.listMemories({ state: "archived", limit: 5 }, { timeoutMs: 5, maxRetries: 0 });
  await alice.consolidate({ fold: ["sessions"], dry_run: false });
  await alice.deleteUser({ confirm: true });
  await alice.updateMemory("1", { kind: null });

  // @ts-expect-error unknown field
  await alice.searchMemories({ query: "x", top_k: 5 });
  // @ts-expect-error query is needed
  await alice.searchMemories({ k: 5 });
  // @ts-expect-error unknown operator
  await alice.searchMemories({ query: "x", filter: { metadata: { a: { $near: true } } } });
  // @ts-expect-error an operator that orders takes no boolean
  await alice.searchMemories({ query: "x", filter: { metadata: { a: { $gt: true } } } });
  // @ts-expect-error unknown state
  await alice.listMemories({ state: "dead" });
  // @ts-expect-error deleting everything must be confirmed
  await alice.deleteUser();
  // @ts-expect-error deleting everything must be confirmed
  await alice.deleteUser({ confirm: false });
  // @ts-expect-error a text is no memory's field
  await alice.updateMemory("1", { importance: "high" });
  // @ts-expect-error a function is no JSON
  await alice.addMemories({ memories: [{ content: "x", custom_metadata: { f: () => 1 } }] });
  // @ts-expect-error unknown option
  await alice.getMemory("1", { timeout: 5 });
  // @ts-expect-error the app and the user are those of the client
  await alice.getMemory("hotel", "alice", "1");
  // @ts-expect-error unknown kind of summary
  await alice.consolidate({ fold: ["everything"] });
}

export async function responses(): Promise<void> {
  const { memories, truncated } = await alice.searchMemories({ query: "x" });
  isTrue<Equal<typeof memories, Memory[]>>();
  isTrue<Equal<typeof truncated, true | undefined>>();
  for (const memory of memories) {
    isTrue<Equal<typeof memory.id, string>>();
    isTrue<Equal<typeof memory.score, number | undefined>>();
    const value: JsonValue | undefined = memory.custom_metadata?.["key"];
    const text: string = typeof memory.content === "string" ? memory.content : "";
    void [value, text];
  }
  const added = await alice.addMemories({ memories: ["x"] });
  isTrue<Equal<typeof added.ids, (null | string)[]>>();
  const reason = added.left_out?.[0]?.reason;
  isTrue<
    Equal<
      typeof reason,
      | "partial"
      | "no_text"
      | "role"
      | "invalid"
      | "rewound"
      | "deleted"
      | "expired"
      | "evicted"
      | "rejected"
      | "taken"
      | undefined
    >
  >();
  isTrue<Equal<Awaited<ReturnType<typeof alice.deleteMemory>>, void>>();
  for await (const line of alice.exportUser()) isTrue<Equal<typeof line, ExportLine>>();
  for await (const memory of alice.allMemories()) isTrue<Equal<typeof memory, Memory>>();
  isTrue<Equal<ExportLine, JsonObject>>();
  const metrics: string = await client.metrics();
  const bytes: number = (await client.backup()).bytes;
  const request: Search = { query: "x", vector: [0.5] };
  const entry: NewMemory = { content: "x" };
  void [metrics, bytes, request, entry];
}

export function handled(error: AnyResponseError): string {
  switch (error.status) {
    case 409:
      isTrue<Equal<typeof error, ConflictError>>();
      isTrue<Equal<typeof error.code, "conflict">>();
      return error.code;
    case 422:
      isTrue<Equal<typeof error.code, "invalid" | "rejected">>();
      // @ts-expect-error the code of another status
      return error.code === "conflict" ? "" : error.requestId;
    default:
      return error.message;
  }
}

export function caught(error: unknown): number | undefined {
  if (error instanceof VecallResponseError) return error.retryAfterMs;
  if (error instanceof VecallError) void error.code;
  return undefined;
}

