/** The base class of all errors of the client. None contains a token or what was sent. */
export class VecallError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   */
  constructor(code, message) {
    super(message);
    this.code = code;
    this.name = new.target.name;
  }
}

/** An argument cannot be sent; nothing was sent. */
export class VecallArgumentError extends VecallError {
  /** @param {string} message */
  constructor(message) {
    super("argument", message);
  }
}

/** There is no connection, or it ended before the response did. */
export class VecallConnectionError extends VecallError {
  /**
   * @param {string} message
   * @param {string} [reason] The error code of the runtime, such as "ECONNREFUSED".
   */
  constructor(message, reason) {
    super("connection", reason === undefined ? message : `${message} (${reason})`);
    this.reason = reason;
  }
}

/** `timeoutMs` passed. A write may have happened, or may happen yet. */
export class VecallTimeoutError extends VecallError {
  /** @param {number} timeoutMs */
  constructor(timeoutMs) {
    super("client_timeout", `No response within ${timeoutMs} ms.`);
    this.timeoutMs = timeoutMs;
  }
}

/** The response does not come from a vecall server, but perhaps from a proxy. */
export class VecallProtocolError extends VecallError {
  /**
   * @param {string} message
   * @param {number} status
   */
  constructor(message, status) {
    super("protocol", `${message} (HTTP status ${status})`);
    this.status = status;
  }
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
  constructor(status, code, message, requestId, retryAfterMs) {
    super(code, message);
    /** The HTTP status. */
    this.status = status;
    /** The id of the request in the log of the server. */
    this.requestId = requestId;
    /** The time after which the server suggests to come again, in milliseconds. */
    this.retryAfterMs = retryAfterMs;
  }
}
