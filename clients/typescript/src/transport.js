import { Deadline } from "./deadline.js";
import {
  VecallArgumentError,
  VecallConnectionError,
  VecallError,
  VecallProtocolError,
  VecallResponseError,
} from "./errors.js";
import { decode, encode, randomKey } from "./json.js";
import { segment } from "./names.js";
import { errorClasses } from "./response_errors.js";

const TIMEOUT_MS = 60_000;
const MAX_TIMEOUT_MS = 2 ** 31 - 1; // setTimeout fires at once for longer times
const MAX_RETRIES = 2;
const BACKOFF_MS = 200; // doubles with every retry
const MAX_BACKOFF_MS = 10_000;
const UNAVAILABLE = [502, 503, 504]; // also of a proxy

/**
 * @typedef {object} ClientOptions
 * @property {string | URL} url The address of the server, with the path at which it is mounted.
 * @property {string | (() => string | Promise<string>)} [token] The token, or a function that
 *   returns it; called once for each attempt. Only `health` and `openapi` need none.
 * @property {number} [timeoutMs] The time for a call with its retries; for JSON lines, the
 *   time for the first and each further piece. Infinity: no limit. Default: 60,000.
 * @property {number} [maxRetries] The number of retries after a failure. A request above the
 *   rate limit is always repeated, others only if that cannot write twice. Default: 2.
 * @property {typeof globalThis.fetch} [fetch] Replaces the global `fetch`.
 */

/**
 * @typedef {object} CallOptions
 * @property {AbortSignal | undefined} [signal] Aborts the call, which then rejects with its reason.
 * @property {number | undefined} [timeoutMs] As in `ClientOptions`.
 * @property {number | undefined} [maxRetries] As in `ClientOptions`.
 */

/**
 * @typedef {object} Operation
 * @property {string} method
 * @property {string} path
 * @property {string} repeat When a client may repeat a request without knowing the fate of the
 *   first one: "always", "with_key": with an idempotency key, or "never".
 * @property {string} answer The kind of response: "json", "text", "lines" or "none".
 */

/** @typedef {{ readonly [name: string]: unknown }} Fields */

/**
 * @typedef {object} Call
 * @property {string} url
 * @property {string} method
 * @property {string | undefined} body
 * @property {boolean} repeatable
 * @property {number} maxRetries
 * @property {Deadline} deadline
 */

/** Sends requests and reads responses. */
export class Transport {
  #url;
  #token;
  #fetch;
  #timeoutMs;
  #maxRetries;

  /** @param {ClientOptions} options */
  constructor({ url, token, timeoutMs = TIMEOUT_MS, maxRetries = MAX_RETRIES, fetch }) {
    this.#url = checkedUrl(url);
    if (typeof token !== "function" && token !== undefined) checkedToken(token);
    this.#token = token;
    // The global is found at the call, and must not be called as a method.
    this.#fetch = fetch ?? ((input, init) => globalThis.fetch(input, init));
    this.#timeoutMs = checkedTimeout(timeoutMs);
    this.#maxRetries = checkedCount(maxRetries);
  }

  /**
   * Send a request and return the value of its response.
   *
   * @param {Operation} operation
   * @param {Fields} names
   * @param {Fields | undefined} query
   * @param {Fields | undefined} body
   * @param {CallOptions | undefined} options
   * @returns {Promise<unknown>}
   */
  async call(operation, names, query, body, options) {
    const call = this.#prepared(operation, names, query, body, options);
    try {
      return await this.#retried(call, async (response) => {
        if (operation.answer === "none") return void (await response.body?.cancel());
        const text = await received(call, () => response.text());
        return operation.answer === "text" ? text : parsed(text, response.status);
      });
    } finally {
      call.deadline.close();
    }
  }

  /**
   * Send a request and yield the values of the JSON lines of its response.
   *
   * @param {Operation} operation
   * @param {Fields} names
   * @param {Fields | undefined} query
   * @param {Fields | undefined} body
   * @param {CallOptions | undefined} options
   * @returns {AsyncGenerator<unknown, void, undefined>}
   */
  async *lines(operation, names, query, body, options) {
    const call = this.#prepared(operation, names, query, body, options);
    try {
      const response = await this.#retried(call, async (each) => each);
      const reader = response.body?.getReader();
      if (reader === undefined) return;
      const decoder = new TextDecoder();
      let rest = "";
      for (;;) {
        call.deadline.restart();
        const { done, value } = await received(call, () => reader.read());
        call.deadline.pause(); // the time of the consumer does not count
        if (done) break;
        const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
        rest = lines.pop() ?? "";
        for (const line of lines) yield parsed(line, response.status);
      }
      if (rest !== "") throw new VecallConnectionError("The response is not complete.");
    } finally {
      call.deadline.close();
      call.deadline.abort(); // ends the connection of an iteration that was left
    }
  }

  /**
   * @param {Operation} operation
   * @param {Fields} names
   * @param {Fields | undefined} query
   * @param {Fields | undefined} body
   * @param {CallOptions} [options]
   * @returns {Call}
   */
  #prepared(operation, names, query, body, options = {}) {
    const maxRetries = checkedCount(options.maxRetries ?? this.#maxRetries);
    const timeoutMs = checkedTimeout(options.timeoutMs ?? this.#timeoutMs);
    let sent = body;
    let repeatable = operation.repeat === "always";
    if (operation.repeat === "with_key" && isObject(body)) {
      repeatable = true;
      if (body["idempotency_key"] === undefined && maxRetries > 0) {
        sent = { ...body, idempotency_key: randomKey() };
      }
    }
    return {
      url: this.#url + pathOf(operation.path, names) + queryOf(query),
      method: operation.method,
      body: body === undefined ? undefined : encode(sent),
      repeatable,
      maxRetries,
      deadline: new Deadline(options.signal, timeoutMs),
    };
  }

  /**
   * @template T
   * @param {Call} call
   * @param {(response: Response) => Promise<T>} read
   * @returns {Promise<T>}
   */
  async #retried(call, read) {
    for (let retries = 0; ; retries += 1) {
      try {
        return await read(await this.#attempt(call));
      } catch (error) {
        if (retries === call.maxRetries || !mayRetry(error, call.repeatable)) throw error;
        const ms = backoff(error, retries);
        if (ms >= call.deadline.left) throw error;
        await call.deadline.sleep(ms);
      }
    }
  }

  async #currentToken() {
    return typeof this.#token === "function" ? await this.#token() : this.#token;
  }

  /**
   * @param {Call} call
   * @returns {Promise<Response>}
   */
  async #attempt(call) {
    const token = await call.deadline.race(this.#currentToken());
    /** @type {Record<string, string>} */
    const headers = {};
    if (token !== undefined) headers["Authorization"] = `Bearer ${checkedToken(token)}`;
    if (call.body !== undefined) headers["Content-Type"] = "application/json";
    const response = await received(call, () =>
      this.#fetch(call.url, {
        method: call.method,
        headers,
        signal: call.deadline.signal,
        redirect: "manual", // no token for another address
        ...(call.body === undefined ? {} : { body: call.body }),
      }),
    );
    if (response.ok) return response;
    const text = await received(call, () => response.text());
    throw errorOf(response, text, token);
  }
}

/**
 * Return what the network returns; or else throw a typed error without its message, which may
 * contain the address and the headers.
 *
 * @template T
 * @param {Call} call
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
async function received(call, work) {
  const { signal } = call.deadline;
  signal.throwIfAborted();
  try {
    return await call.deadline.race(work());
  } catch (error) {
    signal.throwIfAborted();
    throw new VecallConnectionError("The connection failed.", reasonOf(error));
  }
}

/**
 * @param {unknown} error
 * @returns {string | undefined}
 */
function reasonOf(error) {
  for (let each = error, depth = 0; isObject(each) && depth < 4; each = each["cause"], depth += 1) {
    const code = each["code"];
    if (typeof code === "string" && /^[A-Z][A-Z0-9_]{1,40}$/.test(code)) return code;
  }
  return undefined;
}

/**
 * @param {unknown} error
 * @param {boolean} repeatable
 */
function mayRetry(error, repeatable) {
  if (error instanceof VecallResponseError && error.status === 429) return true;
  if (!repeatable) return false;
  if (error instanceof VecallConnectionError) return true;
  return (
    (error instanceof VecallResponseError || error instanceof VecallProtocolError) &&
    UNAVAILABLE.includes(error.status)
  );
}

/**
 * Return the time before a retry: random, so that clients do not come again together.
 *
 * @param {unknown} error
 * @param {number} retries
 */
function backoff(error, retries) {
  const random = Math.min(BACKOFF_MS * 2 ** retries, MAX_BACKOFF_MS) * (0.5 + Math.random() / 2);
  const asked = error instanceof VecallResponseError ? (error.retryAfterMs ?? 0) : 0;
  return asked + random;
}

/**
 * @param {Response} response
 * @param {string} text
 * @param {string | undefined} token
 * @returns {VecallError}
 */
function errorOf(response, text, token) {
  const { status } = response;
  let body;
  try {
    body = decode(text);
  } catch {
    body = undefined;
  }
  const error = isObject(body) ? body["error"] : undefined;
  if (!isObject(error)) return new VecallProtocolError("The response is no vecall error.", status);
  const { code, message, request_id: requestId } = error;
  if (typeof code !== "string" || typeof message !== "string" || typeof requestId !== "string") {
    return new VecallProtocolError("The response is no vecall error.", status);
  }
  const Class = errorClasses.get(status) ?? VecallResponseError;
  const hidden = token === undefined ? message : message.replaceAll(token, "***");
  return new Class(status, code, hidden, requestId, retryAfterOf(response));
}

/** @param {Response} response */
function retryAfterOf(response) {
  const value = response.headers.get("Retry-After") ?? "";
  return /^[0-9]{1,6}$/.test(value) ? 1000 * Number(value) : undefined;
}

/**
 * @param {string} text
 * @param {number} status
 */
function parsed(text, status) {
  let value;
  try {
    value = decode(text);
  } catch {
    throw new VecallProtocolError("The response is not JSON.", status);
  }
  if (!isObject(value)) throw new VecallProtocolError("The response is no object.", status);
  return value;
}

/**
 * @param {unknown} value
 * @returns {value is { [key: string]: unknown }}
 */
function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * @param {string} path
 * @param {Fields} names
 */
function pathOf(path, names) {
  return path.replace(/{(\w+)}/g, (_, field) => segment(field, names[field]));
}

/** @param {Fields | undefined} query */
function queryOf(query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined);
  const pairs = given.map(([name, value]) => {
    if (!["string", "number", "boolean"].includes(typeof value)) {
      throw new VecallArgumentError("query: expected strings, numbers and booleans");
    }
    return `${segment("query", name)}=${segment("query", String(value))}`;
  });
  return pairs.length === 0 ? "" : `?${pairs.join("&")}`;
}

/**
 * @param {unknown} url
 * @returns {string}
 */
function checkedUrl(url) {
  let parts;
  try {
    parts = new URL(String(url));
  } catch {
    throw new VecallArgumentError("url: must be an absolute URL");
  }
  if (parts.protocol !== "http:" && parts.protocol !== "https:") {
    throw new VecallArgumentError("url: must begin with http:// or https://");
  }
  if (parts.username !== "" || parts.password !== "") {
    throw new VecallArgumentError("url: must not contain a user or a password");
  }
  if (parts.search !== "" || parts.hash !== "") {
    throw new VecallArgumentError("url: must not contain a query or a fragment");
  }
  return parts.origin + parts.pathname.replace(/\/+$/, "");
}

/**
 * Check a token here, because a header that cannot be sent appears in the runtime's error.
 *
 * @param {unknown} token
 * @returns {string}
 */
function checkedToken(token) {
  if (typeof token !== "string" || !/^[!-~]+$/.test(token)) {
    throw new VecallArgumentError("token: must be printable ASCII without spaces");
  }
  return token;
}

/**
 * @param {unknown} value
 * @returns {number}
 */
function checkedTimeout(value) {
  if (typeof value === "number" && value > 0 && (value <= MAX_TIMEOUT_MS || value === Infinity)) {
    return value;
  }
  throw new VecallArgumentError(`timeoutMs: must be above 0 and at most ${MAX_TIMEOUT_MS}`);
}

/**
 * @param {unknown} value
 * @returns {number}
 */
function checkedCount(value) {
  if (typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= 100) {
    return value;
  }
  throw new VecallArgumentError("maxRetries: must be an integer from 0 to 100");
}
