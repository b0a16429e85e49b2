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
    /** @param {ClientOptions} options */
    constructor({ url, token, timeoutMs, maxRetries, fetch }: ClientOptions);
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
    call(operation: Operation, names: Fields, query: Fields | undefined, body: Fields | undefined, options: CallOptions | undefined): Promise<unknown>;
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
    lines(operation: Operation, names: Fields, query: Fields | undefined, body: Fields | undefined, options: CallOptions | undefined): AsyncGenerator<unknown, void, undefined>;
    #private;
}
export type ClientOptions = {
    /**
     * The address of the server, with the path at which it is mounted.
     */
    url: string | URL;
    /**
     * The token, or a function that
     * returns it; called once for each attempt. Only `health` and `openapi` need none.
     */
    token?: string | (() => string | Promise<string>);
    /**
     * The time for a call with its retries; for JSON lines, the
     * time for the first and each further piece. Infinity: no limit. Default: 60,000.
     */
    timeoutMs?: number;
    /**
     * The number of retries after a failure. A request above the
     * rate limit is always repeated, others only if that cannot write twice. Default: 2.
     */
    maxRetries?: number;
    /**
     * Replaces the global `fetch`.
     */
    fetch?: typeof globalThis.fetch;
};
export type CallOptions = {
    /**
     * Aborts the call, which then rejects with its reason.
     */
    signal?: AbortSignal | undefined;
    /**
     * As in `ClientOptions`.
     */
    timeoutMs?: number | undefined;
    /**
     * As in `ClientOptions`.
     */
    maxRetries?: number | undefined;
};
export type Operation = {
    method: string;
    path: string;
    /**
     * When a client may repeat a request without knowing the fate of the
     * first one: "always", "with_key": with an idempotency key, or "never".
     */
    repeat: string;
    /**
     * The kind of response: "json", "text", "lines" or "none".
     */
    answer: string;
};
export type Fields = {
    readonly [name: string]: unknown;
};
export type Call = {
    url: string;
    method: string;
    body: string | undefined;
    repeatable: boolean;
    maxRetries: number;
    deadline: Deadline;
};
import { Deadline } from "./deadline.js";
