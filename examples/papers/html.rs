//! The report as one HTML file that needs no other: made from the Markdown, with its pictures inside.
//!
//! The Markdown is the one model of the report, so both say the same.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd, html};

/// Black on white and on paper; light on dark if the reader's system asks for it. Pictures stay on white.
const STYLE: &str = "\
:root { color-scheme: light dark; --ink: #1b1b1b; --ground: #fff; --line: #ccc; --link: #12507f; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e4e4; --ground: #181a1b; --line: #4a4a4a; --link: #8fc4ee; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3 { line-height: 1.25; }
h2 { margin-top: 3rem; border-bottom: 1px solid var(--line); }
h3 { margin: 2rem 0 0.3rem; }
h3 + p { margin-top: 0.3rem; }
a { color: var(--link); }
table { border-collapse: collapse; font-size: 0.9em; display: block; overflow-x: auto; }
thead:not(:has(th:not(:empty))) { display: none; }
th, td { border: 1px solid var(--line); padding: 0.2rem 0.6rem; vertical-align: top; }
pre { overflow-x: auto; font-size: 0.8em; line-height: 1.2; }
blockquote { border-left: 4px solid #c33; margin-left: 0; padding-left: 1rem; }
.picture { display: block; }
.picture svg { max-width: 100%; height: auto; background: #fff; border-radius: 4px; }
@media print {
  :root { --ink: #000; --ground: #fff; --line: #999; --link: #000; }
  @page { size: A4; margin: 10mm 14mm; }
  body { font-size: 8.5pt; line-height: 1.3; margin: 0; max-width: none; padding: 0; }
  h1 { font-size: 14pt; margin: 0 0 0.3rem; }
  h2:first-of-type { break-before: page; }
  h3 { margin: 0.5rem 0 0; font-size: 10pt; }
  p, h3 + p { margin: 0.1rem 0; }
  table { display: table; }
  h2, h3 { break-after: avoid; }
  .picture, tr { break-inside: avoid; }
  .picture[id^=picture-front] svg { width: 400px; }
}
";

/// Makes the page. `picture` returns the text of an SVG file, by the name that the Markdown gives it.
pub(crate) fn page(markdown: &str, picture: impl Fn(&str) -> Option<String>) -> String {
    let title = markdown.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or_default();
    let mut events = Parser::new_ext(markdown, Options::ENABLE_TABLES);
    let mut shown = Vec::new();
    while let Some(event) = events.next() {
        match event {
            Event::Start(Tag::Image { dest_url, .. }) => {
                let words = events.by_ref().take_while(|event| *event != Event::End(TagEnd::Image));
                let about: String = words
                    .filter_map(|event| match event {
                        Event::Text(text) | Event::Code(text) => Some(text.to_string()),
                        _ => None,
                    })
                    .collect();
                shown.push(match picture(&dest_url) {
                    Some(svg) => Event::InlineHtml(inlined(&dest_url, &about, &svg).into()),
                    None => Event::Text(format!("(There is no picture {dest_url}.)").into()),
                });
            }
            event => shown.push(event),
        }
    }
    let mut body = String::new();
    html::push_html(&mut body, shown.into_iter());
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        escaped(title)
    )
}

/// An SVG file as a part of the page. HTML knows the namespace, so the page names no address at all.
fn inlined(name: &str, about: &str, svg: &str) -> String {
    let svg = &svg[svg.find("<svg").unwrap_or(0)..];
    let svg = svg.replacen(" xmlns=\"http://www.w3.org/2000/svg\"", "", 1);
    let name = escaped(name.trim_end_matches(".svg"));
    format!(
        "<span class=\"picture\" id=\"picture-{name}\" role=\"img\" aria-label=\"{}\">{}</span>",
        escaped(about),
        svg.trim()
    )
}

/// The text without what HTML would read as its own.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
