// Every kind of error, retries, aborts and tokens.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";

import * as errors from "../src/index.js";
import { failure, start } from "./server.js";

const SECRET = "zebra-4711";
const { VecallClient, VecallConnectionError, VecallProtocolError, VecallTimeoutError } = errors;

let server;
let strict;
before(async () => {
  server = await start("--max-batch", "3");
  strict = await start("--requests-at-once", "1", "--writes-per-second", "2");
});
after(() => Promise.all([server.stop(), strict.stop()]));

const alice = (bearer, more) => server.client(bearer, more).user("hotel", "alice");

/** A fetch that does what is planned for each request; without a plan it sends it. */
function planned(...plans) {
  const bodies = [];
  const fetch = async (url, init) => {
    bodies.push(init.body);
    const plan = plans.shift();
    return plan === undefined ? globalThis.fetch(url, init) : plan(url, init);
  };
  return { fetch, bodies };
}

const lost = async (url, init) => {
  await (await fetch(url, init)).text();
  throw new TypeError(`lost ${init.headers.Authorization}`, { cause: { code: "ECONNRESET" } });
};

/** An HTTP server that is not vecall's, with a client of it. */
async function other(respond) {
  const requests = [];
  const http = createServer((request, response) => {
    requests.push(request);
    request.resume();
    respond(response, requests.length, request);
  });
  await new Promise((resolve) => http.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${http.address().port}`;
  const client = new VecallClient({ url, token: SECRET });
  return {
    user: client.user("hotel", "alice"),
    requests,
    close() {
      http.closeAllConnections();
      return new Promise((resolve) => http.close(resolve));
    },
  };
}

const told = (code, message = "A rule.") =>
  JSON.stringify({ error: { code, message, request_id: "1" } });

test("the server's errors are instances of the class of their status, with their code", async () => {
  const reader = (await server.token("--app", "hotel", "--read-only")).text;
  const app = (await server.token("--app", "hotel")).text;
  const sourced = (await server.token("--app", "hotel", "--source", "crm")).text;
  const low = (await server.token("--app", "hotel", "--trust", "unverified")).text;
  const floored = (await server.token("--app", "hotel", "--min-trust", "first-party")).text;
  const key = { idempotency_key: "k" };
  await alice().addMemories({ memories: ["first"], ...key });
  const expected = [
    ["UnauthorizedError", 401, "unauthorized", () => alice("wrong").listMemories()],
    ["UnauthorizedError", 401, "unauthorized", () => new VecallClient({ url: server.url }).metrics()],
    ["ForbiddenError", 403, "forbidden", () => server.client().metrics()],
    ["ForbiddenError", 403, "read_only", () => alice(reader).deleteMemory(SECRET)],
    ["ForbiddenError", 403, "review", () => alice(app).listMemories({ state: "quarantined" })],
    ["ForbiddenError", 403, "source",
      () => alice(sourced).addMemories({ memories: [{ content: SECRET, source: SECRET }] })],
    ["ForbiddenError", 403, "trust",
      () => alice(low).addMemories({ memories: [{ content: SECRET, trust: "first-party" }] })],
    ["ForbiddenError", 403, "trust", () => alice(floored).exportUser().next()],
    ["NotFoundError", 404, "not_found", () => alice().getMemory(SECRET)],
    ["NotFoundError", 404, "not_found", () => alice().ingestSession({ sessionId: "unknown" })],
    ["NotFoundError", 404, "not_found",
      () => new VecallClient({ url: `${server.url}/nothing/`, token: app }).health()],
    ["ConflictError", 409, "conflict", () => alice().addMemories({ memories: [SECRET], ...key })],
    ["TooLargeError", 413, "too_large", () => alice().searchMemories({ query: SECRET.repeat(50_000) })],
    ["InvalidError", 422, "invalid", () => alice().searchMemories({ query: 1 })],
    ["InvalidError", 422, "invalid", () => alice().searchMemories({ [SECRET.replace("-", " ")]: 1 })],
    ["InvalidError", 422, "invalid", () => alice().deleteUser({ confirm: false })],
    ["InvalidError", 422, "invalid", () => alice().addMemories({ memories: ["a", "b", "c", "d"] })],
    ["InvalidError", 422, "rejected", () => alice().addMemories({ memories: [`reject ${SECRET}`] })],
    ["UnavailableError", 503, "write_hook",
      () => alice(app, { maxRetries: 0 }).addMemories({ memories: [`break the rule ${SECRET}`] })],
    ["UnavailableError", 503, "session_loader",
      () => alice(app, { maxRetries: 0 }).ingestSession({ sessionId: "broken" })],
    ["BadRequestError", 400, "headers_too_large", () => alice().getMemory(SECRET.repeat(3000))],
  ]; // prettier-ignore
  for (const [name, status, code, call] of expected) {
    const error = await failure(call(), SECRET, server.alice, app, reader, sourced);
    assert.equal(error.constructor, errors[name], `${code} ${error}`);
    assert.ok(error instanceof errors.VecallResponseError);
    assert.ok(error instanceof errors.VecallError);
    assert.deepEqual([error.name, error.status, error.code], [name, status, code]);
    assert.match(error.requestId, /^[0-9a-f]{16}$/);
    assert.ok(error.message.length > 0);
    if (status === 503) assert.equal(error.retryAfterMs, 1000);
  }
});

test("an error of any status has its class, of an unknown one the base class", async () => {
  const answers = [
    [405, "method_not_allowed", "MethodNotAllowedError"],
    [408, "too_slow", "RequestTimeoutError"],
    [415, "unsupported_media_type", "UnsupportedMediaTypeError"],
    [500, "internal", "ServerError"],
    [507, "storage_full", "StorageFullError"],
    [418, "teapot", "VecallResponseError"],
  ];
  const there = await other((response, number) => {
    const [status, code] = answers[number - 1];
    response.writeHead(status).end(told(code));
  });
  for (const [status, code, name] of answers) {
    const error = await failure(there.user.listMemories(), SECRET);
    assert.equal(error.constructor, errors[name]);
    assert.deepEqual([error.status, error.code, error.name], [status, code, name]);
  }
  await there.close();
});

test("a response that is not vecall's is a protocol error that does not repeat it", async () => {
  const answers = [
    [400, `<html>${SECRET}`],
    [401, JSON.stringify({ error: SECRET })],
    [404, JSON.stringify({ error: { code: 1, message: SECRET, request_id: "1" } })],
    [200, `<html>${SECRET}`],
    [200, `"${SECRET}"`],
    [200, ""],
    [200, "[]"],
    [302, ""],
    [307, ""],
  ];
  const there = await other((response, number) => {
    const [status, text] = answers[number - 1];
    response.writeHead(status, { Location: server.url }).end(text);
  });
  for (const [status] of answers) {
    const error = await failure(there.user.listMemories(), SECRET);
    assert.ok(error instanceof VecallProtocolError);
    assert.deepEqual([error.code, error.status], ["protocol", status]);
  }
  assert.equal(there.requests.length, answers.length);
  await there.close();
});

test("a token that a proxy repeats is not in the error", async () => {
  const there = await other((response, _, request) => {
    response.writeHead(403).end(told("forbidden", `no ${request.headers.authorization}`));
  });
  const error = await failure(there.user.listMemories(), SECRET);
  assert.equal(error.message, "no Bearer ***");
  await there.close();
});

test("a token that no header can carry is refused before a request, without the token", async () => {
  const url = server.url;
  for (const token of [`${SECRET}\n`, `${SECRET} x`, "", `${SECRET}é`, 1, null]) {
    const make = async () => new VecallClient({ url, token });
    assert.ok((await failure(make(), SECRET)) instanceof errors.VecallArgumentError);
    const client = new VecallClient({ url, token: () => token });
    const error = await failure(client.user("a", "b").listMemories(), SECRET);
    assert.ok(error instanceof errors.VecallArgumentError);
  }
});

test("an address or an option that cannot be is refused", async () => {
  const good = { url: server.url, token: "t" };
  for (const wrong of [
    { url: `http://${SECRET}:${SECRET}@localhost` },
    { url: `http://localhost/?${SECRET}` },
    { url: `http://localhost/#${SECRET}` },
    { url: `ftp://${SECRET}` },
    { url: SECRET },
    { url: undefined },
    { timeoutMs: 0 },
    { timeoutMs: 2 ** 31 },
    { timeoutMs: NaN },
    { maxRetries: -1 },
    { maxRetries: 0.5 },
  ]) {
    const make = async () => new VecallClient({ ...good, ...wrong });
    assert.ok((await failure(make(), SECRET)) instanceof errors.VecallArgumentError);
  }
});

test("a token that a function returns may change between requests", async () => {
  const tokens = ["wrong", server.alice];
  const client = new VecallClient({ url: server.url, token: async () => tokens.shift() });
  const user = client.user("hotel", "alice");
  assert.equal((await failure(user.listMemories())).code, "unauthorized");
  assert.ok((await user.listMemories()).memories.length > 0);
});

test("an add whose response is lost is repeated, and stores once", async () => {
  const { fetch, bodies } = planned(lost, lost);
  const user = alice(undefined, { fetch });
  const memory = { content: "once", timestamp: 1 };
  const { ids } = await user.addMemories({ memories: [memory, { ...memory }] });
  assert.equal(bodies.length, 3);
  assert.equal(new Set(bodies).size, 1);
  assert.match(JSON.parse(bodies[0]).idempotency_key, /^[0-9a-f]{32}$/);
  const given = planned(lost);
  const events = { events: [{ content: "once" }], idempotency_key: "mine" };
  const stored = await alice(undefined, { fetch: given.fetch }).addEvents(events);
  assert.deepEqual(given.bodies.map((body) => JSON.parse(body).idempotency_key), ["mine", "mine"]);
  const never = planned();
  const single = { memories: [memory] };
  await alice(undefined, { fetch: never.fetch, maxRetries: 0 }).addMemories(single);
  assert.equal(JSON.parse(never.bodies[0]).idempotency_key, undefined);
  const found = [];
  for await (const each of user.allMemories()) found.push(each);
  const once = found.filter((each) => each.content === "once").map((each) => each.id);
  assert.deepEqual(new Set(once), new Set([...ids, ...stored.ids]));
  assert.equal(once.length, new Set(once).size);
});

test("what could write twice is not repeated, reads are", async () => {
  await alice().addMemories({ memories: [{ content: "there", id: "there" }] });
  const cases = [
    [1, (user) => user.updateMemory("there", { content: "there." })],
    [1, (user) => user.markUsed({ ids: ["there"] })],
    [1, (user) => user.deleteWhere({ filter: { kind: "nothing" } })],
    [1, (user) => user.consolidate()],
    [1, (user) => user.archiveMemory("there")],
    [3, (user) => user.searchMemories({ query: "x" })],
    [3, (user) => user.listMemories()],
    [3, (user) => user.deleteMemory("nothing")],
    [3, (user) => user.exportUser().next()],
  ];
  for (const [expected, call] of cases) {
    const { fetch, bodies } = planned(lost, lost, lost);
    const error = await failure(call(alice(undefined, { fetch })), server.alice);
    assert.ok(error instanceof VecallConnectionError);
    assert.deepEqual([error.code, error.reason], ["connection", "ECONNRESET"]);
    assert.equal(bodies.length, expected);
  }
});

test("a request above the rate limit is repeated when the server says, any other error is not", async () => {
  const there = await other((response, number) => {
    if (number > 1) return response.writeHead(200).end('{"marked":1}');
    response.writeHead(429, { "Retry-After": "1" }).end(told("too_many_requests"));
  });
  const begin = performance.now();
  assert.deepEqual(await there.user.markUsed({ ids: ["x"] }), { marked: 1 });
  assert.ok(performance.now() - begin >= 1000);
  const busy = await failure(
    other((response) => response.writeHead(503).end(told("busy"))).then((each) =>
      each.user.markUsed({ ids: ["x"] }, { maxRetries: 2 }).finally(() => {
        assert.equal(each.requests.length, 1);
        return each.close();
      }),
    ),
  );
  assert.equal(busy.code, "busy");
  await there.close();
});

test("writes above the limit of a real server are refused, and repeated until they pass", async () => {
  const writer = strict.client().user("hotel", "alice");
  const refused = (call) => call.then(() => [], (error) => [error]); // prettier-ignore
  const one = { memories: ["one"] };
  const calls = Array.from({ length: 4 }, () => refused(writer.addMemories(one, { maxRetries: 0 })));
  const found = (await Promise.all(calls)).flat();
  assert.ok(found.length > 0);
  for (const error of found) {
    assert.ok(error instanceof errors.RateLimitError);
    assert.ok(error.retryAfterMs >= 1000);
  }
  assert.equal((await writer.addMemories(one, { maxRetries: 5 })).ids.length, 1);
});

test("a wait that would be longer than the timeout is not begun", async () => {
  const there = await other((response) =>
    response.writeHead(429, { "Retry-After": "500" }).end(told("too_many_requests")),
  );
  const error = await failure(there.user.listMemories({}, { timeoutMs: 20_000 }));
  assert.ok(error instanceof errors.RateLimitError);
  assert.equal(there.requests.length, 1);
  await there.close();
});

test("an abort rejects with its reason, before, during and between requests", async () => {
  const reason = new Error("mine");
  const silent = await other(() => {});
  const slow = await other((response) => response.writeHead(200).write('{"memories":'));
  const busy = await other((response) => response.writeHead(503).end(told("busy")));
  for (const [there, event] of [[silent, "request"], [slow, "request"], [busy, "retry"]]) {
    const before = await failure(
      there.user.listMemories({}, { signal: AbortSignal.abort(reason) }),
    );
    assert.equal(before, reason);
    assert.equal(there.requests.length, 0);
    const controller = new AbortController();
    const call = there.user.listMemories({}, { signal: controller.signal });
    while (there.requests.length < (event === "retry" ? 2 : 1)) await tick();
    controller.abort(reason);
    assert.equal(await failure(call), reason);
    await there.close();
  }
  const plain = new AbortController();
  plain.abort();
  assert.equal((await failure(alice().listMemories({}, { signal: plain.signal }))).name, "AbortError");
});

const tick = () => new Promise((resolve) => setTimeout(resolve, 1));

test("a timeout is an error of its own, also while a body is read or a token awaited", async () => {
  const silent = await other(() => {});
  const slow = await other((response) => response.writeHead(200).write('{"memories":'));
  const calls = [
    () => silent.user.listMemories({}, { timeoutMs: 50 }),
    () => slow.user.listMemories({}, { timeoutMs: 50 }),
    () => slow.user.exportUser({}, { timeoutMs: 50 }).next(),
    () =>
      new VecallClient({ url: server.url, token: () => new Promise(() => {}), timeoutMs: 50 })
        .user("a", "b")
        .listMemories(),
  ];
  for (const call of calls) {
    const error = await failure(call(), SECRET);
    assert.ok(error instanceof VecallTimeoutError);
    assert.deepEqual([error.code, error.timeoutMs], ["client_timeout", 50]);
  }
  await Promise.all([silent.close(), slow.close()]);
});

test("an abort ends an export, and the time of its reader is no timeout", async () => {
  const user = alice();
  await user.addMemories({ memories: ["long ".repeat(50_000)] });
  const controller = new AbortController();
  const lines = user.exportUser({}, { signal: controller.signal, timeoutMs: 1000 });
  await lines.next();
  await new Promise((resolve) => setTimeout(resolve, 1100));
  await lines.next();
  controller.abort(new Error("mine"));
  const rest = (async () => {
    for await (const _ of lines);
  })();
  // What was received already may be read to its end.
  await rest.catch((error) => assert.equal(error.message, "mine"));
});

test("an export that ends early is an error, not a short export", async () => {
  const cut = await other((response) => {
    response.writeHead(200, { "Content-Length": "100" });
    response.write('{"vecall":"export"}\n{"part"', () => response.destroy());
  });
  const unended = await other((response) => response.end('{"vecall":"export"}\n{"part"'));
  const garbage = await other((response) => response.end('{"vecall":"export"}\n{"part"\n'));
  const kinds = [VecallConnectionError, VecallConnectionError, VecallProtocolError];
  for (const [each, there] of [cut, unended, garbage].entries()) {
    const lines = [];
    const read = (async () => {
      for await (const line of there.user.exportUser()) lines.push(line);
    })();
    assert.ok((await failure(read, SECRET)) instanceof kinds[each]);
    assert.ok(lines.length <= 1);
    assert.equal(there.requests.length, 1);
    await there.close();
  }
});

test("an export ends with an error when its token is revoked", async () => {
  const { text, id } = await server.token("--app", "hotel", "--user", "carol");
  const user = server.client(text).user("hotel", "carol");
  for (let times = 0; times < 12; times += 1) {
    // Each character is six in the export, which is larger than all buffers between.
    await user.addMemories({ memories: [`${times} ${"\x7f".repeat(250_000)}`] });
  }
  const lines = user.exportUser();
  await lines.next();
  await server.revoke(id);
  const read = (async () => {
    for await (const _ of lines);
  })();
  assert.ok((await failure(read, text)) instanceof VecallConnectionError);
});

test("no server is a connection error with the reason of the runtime", async () => {
  const gone = await other(() => {});
  await gone.close();
  const error = await failure(gone.user.listMemories({}, { maxRetries: 0 }), SECRET);
  assert.ok(error instanceof VecallConnectionError);
  assert.equal(error.reason, "Deno" in globalThis ? undefined : "ECONNREFUSED");
});
