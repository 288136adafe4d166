"use strict";
// A page that is followed asks for itself again and again, and takes over what has changed.
(() => {
  const everyMs = 1000;
  const shape = (page) => [...page.querySelectorAll(".plot, option, .chip, table")]
    .map((part) => part.dataset.figure ?? part.value ?? part.className + part.rows?.length).join("\n");
  const problem = document.getElementById("problem");

  function take(fresh, selector) {
    const news = fresh.querySelectorAll(selector);
    document.querySelectorAll(selector).forEach((old, i) => {
      if (news[i] && old.innerHTML !== news[i].innerHTML) old.innerHTML = news[i].innerHTML;
    });
  }

  async function look() {
    try {
      const answer = await fetch(document.body.dataset.follow, { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.status);
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      problem.hidden = true;
      if (shape(fresh) !== shape(document)) return location.reload();
      [".ran", ".findings", "nav", "main section > .table-box"].forEach((selector) => take(fresh, selector));
      document.dispatchEvent(new CustomEvent("news", { detail: JSON.parse(fresh.getElementById("payload").textContent) }));
    } catch {
      problem.textContent = "No news: whoever showed this page has ended. The run folder holds everything.";
      problem.hidden = false;
    }
    setTimeout(look, everyMs);
  }
  setTimeout(look, everyMs);
})();
