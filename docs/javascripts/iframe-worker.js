// Browsers refuse workers to pages that are opened from disk. There the search runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.waiting = []
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      this.inner = frame.contentWindow
      this.inner.postMessage = (data) => {
        const event = new MessageEvent("message", { data })
        this.dispatchEvent(event)
        if (this.onmessage) this.onmessage(event)
      }
      const load = (source) =>
        new Promise((resolve, reject) => {
          const script = this.inner.document.createElement("script")
          script.src = source
          script.onload = resolve
          script.onerror = reject
          this.inner.document.body.appendChild(script)
        })
      this.inner.importScripts = (...sources) =>
        sources.reduce((before, source) => before.then(() => load(source)), Promise.resolve())
      load(url).then(() => {
        const messages = this.waiting
        this.waiting = null
        messages.forEach((data) => this.postMessage(data))
      })
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data)
      else this.inner.dispatchEvent(new this.inner.MessageEvent("message", { data }))
    }

    terminate() {
      this.inner.frameElement.remove()
    }
  }
}
