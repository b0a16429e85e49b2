/** The base class of all errors of the client. None contains a token or what was sent. */
export class VecallError extends Error {
    /**
     * @param {string} code
     * @param {string} message
     */
    constructor(code: string, message: string);
    code: string;
}
/** An argument cannot be sent; nothing was sent. */
export class VecallArgumentError extends VecallError {
    /** @param {string} message */
    constructor(message: string);
}
/** There is no connection, or it ended before the response did. */
export class VecallConnectionError extends VecallError {
    /**
     * @param {string} message
     * @param {string} [reason] The error code of the runtime, such as "ECONNREFUSED".
     */
    constructor(message: string, reason?: string);
    reason: string | undefined;
}
/** `timeoutMs` passed. A write may have happened, or may happen yet. */
export class VecallTimeoutError extends VecallError {
    /** @param {number} timeoutMs */
    constructor(timeoutMs: number);
    timeoutMs: number;
}
/** The response does not come from a vecall server, but perhaps from a proxy. */
export class VecallProtocolError extends VecallError {
    /**
     * @param {string} message
     * @param {number} status
     */
    constructor(message: string, status: number);
    status: number;
}
/** An error response of the server. Each status has a subclass. */
export class VecallResponseError extends VecallError {
    /**
     * @param {number} status
     * @param {string} code
     * @param {string} message
     * @param {string} requestId
     * @param {number} [retryAfterMs]
     */
    constructor(status: number, code: string, message: string, requestId: string, retryAfterMs?: number);
    /** The HTTP status. */
    status: number;
    /** The id of the request in the log of the server. */
    requestId: string;
    /** The time after which the server suggests to come again, in milliseconds. */
    retryAfterMs: number | undefined;
}
