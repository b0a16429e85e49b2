import { VecallTimeoutError } from "./errors.js";

/** Aborts a request when its caller does, or when its time is over. */
export class Deadline {
  #controller = new AbortController();
  #signal;
  #timeoutMs;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #end = Infinity;

  /**
   * @param {AbortSignal | undefined} signal
   * @param {number} timeoutMs
   */
  constructor(signal, timeoutMs) {
    this.#signal = signal;
    this.#timeoutMs = timeoutMs;
    signal?.throwIfAborted();
    signal?.addEventListener("abort", this.#follow, { once: true });
    this.restart();
  }

  get signal() {
    return this.#controller.signal;
  }

  /** The time that is left, in milliseconds. */
  get left() {
    return this.#end - performance.now();
  }

  #follow = () => this.abort(this.#signal?.reason);

  /** Begin the time again. */
  restart() {
    this.pause();
    if (this.#timeoutMs === Infinity) return;
    this.#end = performance.now() + this.#timeoutMs;
    this.#timer = setTimeout(
      () => this.abort(new VecallTimeoutError(this.#timeoutMs)),
      this.#timeoutMs,
    );
  }

  /** Stop the time. */
  pause() {
    clearTimeout(this.#timer);
  }

  /** @param {unknown} [reason] */
  abort(reason) {
    this.#controller.abort(reason);
  }

  /** Forget the signal and the timer of the caller. */
  close() {
    this.pause();
    this.#signal?.removeEventListener("abort", this.#follow);
  }

  /**
   * Wait for a promise, unless the request is aborted before.
   *
   * @template T
   * @param {Promise<T>} promise
   * @returns {Promise<T>}
   */
  race(promise) {
    const { signal } = this;
    return new Promise((resolve, reject) => {
      const stop = () => reject(signal.reason);
      if (signal.aborted) stop();
      signal.addEventListener("abort", stop, { once: true });
      promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
    });
  }

  /**
   * Wait for a time, unless the request is aborted before.
   *
   * @param {number} ms
   * @returns {Promise<void>}
   */
  async sleep(ms) {
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    const slept = new Promise((resolve) => {
      timer = setTimeout(resolve, ms);
    });
    try {
      await this.race(slept);
    } finally {
      clearTimeout(timer);
    }
  }
}
