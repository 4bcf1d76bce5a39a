"""The packages of Debian 12 that ``open_docs`` is made of, all from its section *main*."""

from typing import NamedTuple

HTML = ("usr/share/*.html", "usr/share/*.htm", "usr/share/*.xhtml", "usr/share/*.html.gz")

# Sources and source code next to the pages, copies in one file, indexes, search pages, the licenses' texts.
LEFT_OUT = (
    "*/_sources/*",
    "*/_modules/*",
    "*/_static/*",
    "*/class-use/*",
    "*-big-page.html",
    "*/buildbot/html/full.html",
    "*/developers-reference.html",
    "*/gitmagic/gitmagic.html",
    "*/genindex*",
    "*/py-modindex*",
    "*/index-all.html",
    "*/search.html",
    "*/package-use.html",
    "*/package-tree.html",
    "*/gnu-free-documentation-license*",
    "*/gpl-*.html",
    "*/LICENSE*",
    "*/copyright*",
)


class Source(NamedTuple):
    """A package.

    Attributes:
      package: Its name.
      license: License of its documents, as in its copyright file.
      include: Patterns of ``fnmatch`` for the files that are documents.
      exclude: Patterns of files among these that are left out: other languages, copies, and lists of signatures.
      every: Of a large dictionary, take one page of so many.
    """

    package: str
    license: str
    include: tuple[str, ...] = HTML
    exclude: tuple[str, ...] = ()
    every: int = 1


SOURCES = (
    Source("abs-guide", "public domain"),
    Source(
        "ada-reference-manual-2012",
        "ARM license (free to copy and change)",
        ("usr/share/doc/ada-reference-manual-2012/arm2012.html/*.html",),
    ),
    Source("anarchism", "GPL-2", ("usr/share/doc/anarchism/*.html",)),
    Source("ant-doc", "Apache-2.0", ("usr/share/doc/ant/manual/*.html",)),
    Source("apache2-doc", "Apache-2.0", ("usr/share/doc/apache2-doc/manual/en/*.html",)),
    Source(
        "apt-doc",
        "GPL-2+",
        (
            "usr/share/doc/apt-doc/guide.html/*.html",
            "usr/share/doc/apt-doc/offline.html/*.html",
        ),
    ),
    Source("aptitude-doc-en", "GPL-2+"),
    Source("argyll-doc", "AGPL-3"),
    Source("asciidoctor-doc", "MIT"),
    Source("bind9-doc", "MPL-2.0"),
    Source("borgbackup-doc", "BSD-3-clause"),
    Source("brz-doc", "GPL-2+"),
    Source("buildbot-doc", "GPL-2"),
    Source("c++-annotations-html", "GPL-2+"),
    Source("cinder-doc", "Apache-2.0", exclude=("*/contributor/api/*",)),
    Source("clang-14-doc", "Apache-2.0 with LLVM exceptions"),
    Source("cmake-doc", "BSD-3-clause"),
    Source("cython-doc", "Apache-2.0"),
    Source(
        "debian-edu-doc-en", "GPL-2+", ("usr/share/doc/debian-edu-doc-en/debian-edu-bookworm-manual.html",)
    ),
    Source("debian-faq", "free to copy and modify under the same notice", ("*.en.html",)),
    Source("debian-handbook", "GPL-2+ or CC BY-SA 3.0", ("*/html/en-US/*.html",)),
    Source(
        "debian-history",
        "GPL-2+",
        (
            "*/project-history.en.html",
            "*/*.en.html",
        ),
    ),
    Source("debian-policy", "GPL-2+"),
    Source("debian-reference-en", "GPL-2+"),
    Source("debmake-doc", "MIT"),
    Source("developers-reference", "GPL-2"),
    Source("dict-devil", "public domain", ("usr/share/dictd/*",)),
    Source("dict-foldoc", "GFDL 1.1+ without invariant sections", ("usr/share/dictd/*",)),
    Source("dict-gcide", "GPL-1+", ("usr/share/dictd/*",), every=4),
    Source("dict-jargon", "public domain", ("usr/share/dictd/*",)),
    Source("dpdk-doc", "BSD-3-clause", ("*/guides/*.html",)),
    Source("erlang-doc", "Apache-2.0", ("usr/share/doc/erlang-doc/doc/*.html",)),
    Source("exim4-doc-html", "GPL-2+"),
    Source("fai-doc", "GPL-2+"),
    Source("freedombox-doc-en", "CC BY-SA 4.0"),
    Source("frr-doc", "free to copy and modify under the same notice"),
    Source("gap-doc", "GPL-2+"),
    Source("ghc-doc", "BSD-3-clause", ("*/html/users_guide/*.html",)),
    Source("gimp-help-en", "GFDL 1.2+ without invariant sections"),
    Source("git-doc", "GPL-2"),
    Source("gitmagic", "GPL-3"),
    Source("gmsh-doc", "GPL-2+"),
    Source(
        "gnome-devel-docs",
        "CC BY-SA 3.0, 4.0 and GFDL 1.1+ without invariant sections",
        (
            "usr/share/help/C/*.page",
            "usr/share/help/C/*.docbook",
        ),
    ),
    Source("gnome-user-docs", "CC BY-SA 3.0", ("usr/share/help/C/*.page",)),
    Source("gnu-standards", "GFDL 1.3+ without invariant sections"),
    Source("grass-doc", "GPL-2+"),
    Source("harden-doc", "GPL-2", ("*/html/en-US/*.html",)),
    Source("installation-guide-amd64", "GPL-2", ("usr/share/doc/installation-guide-amd64/en/*.html",)),
    Source("ironic-doc", "Apache-2.0", exclude=("*/contributor/api/*",)),
    Source("keystone-doc", "Apache-2.0", exclude=("*/html/api/*",)),
    Source("kicad-doc-en", "GPL-3+"),
    Source("lemonldap-ng-doc", "GPL-2+"),
    Source("libglib2.0-doc", "LGPL-2.1+"),
    Source("libreoffice-help-en-us", "MPL-2.0"),
    Source("libvirt-doc", "LGPL-2.1+"),
    Source(
        "lilypond-doc-html",
        "GFDL 1.3+ without invariant sections",
        exclude=(
            "*/internals/*",
            "*/snippets/*",
        ),
    ),
    Source("linux-doc-6.1", "GPL-2"),
    Source(
        "live-manual-html",
        "GPL-3+",
        ("*/live-manual/*.en.html",),
        ("*/live-manual.en.html",),
    ),
    Source("llvm-14-doc", "Apache-2.0 with LLVM exceptions"),
    Source("mailman3-doc", "GPL-3"),
    Source("maint-guide", "GPL-2+"),
    Source("maxima-doc", "GPL-2"),
    Source("mh-book", "GPL-2+"),
    Source("mypy-doc", "MIT"),
    Source("neutron-doc", "Apache-2.0"),
    Source("nodejs-doc", "MIT", exclude=("*/all.html",)),
    Source("nova-doc", "Apache-2.0"),
    Source("octave-doc", "GPL-3+"),
    Source(
        "openjdk-17-doc",
        "GPL-2 with Classpath exception",
        (
            "usr/share/doc/openjdk-17-jre-headless/api/java.base/*.html",
            "usr/share/doc/openjdk-17-jre-headless/api/java.logging/*.html",
            "usr/share/doc/openjdk-17-jre-headless/api/java.management/*.html",
            "usr/share/doc/openjdk-17-jre-headless/api/java.naming/*.html",
            "usr/share/doc/openjdk-17-jre-headless/api/java.net.http/*.html",
            "usr/share/doc/openjdk-17-jre-headless/api/java.prefs/*.html",
            "usr/share/doc/openjdk-17-jre-headless/api/java.rmi/*.html",
            "usr/share/doc/openjdk-17-jre-headless/api/java.sql/*.html",
            "usr/share/doc/openjdk-17-jre-headless/api/java.xml/*.html",
            "usr/share/doc/openjdk-17-jre-headless/api/jdk.compiler/*.html",
            "usr/share/doc/openjdk-17-jre-headless/api/jdk.httpserver/*.html",
            "usr/share/doc/openjdk-17-jre-headless/api/jdk.jfr/*.html",
            "usr/share/doc/openjdk-17-jre-headless/api/jdk.jshell/*.html",
        ),
    ),
    Source("openvswitch-doc", "Apache-2.0"),
    Source("perl-doc", "GPL-1+ or Artistic", ("*.pod",)),
    Source("postfix-doc", "EPL-2.0 or IPL-1.0"),
    Source("postgis-doc", "CC BY-SA 3.0"),
    Source("postgresql-doc-15", "PostgreSQL"),
    Source("python-celery-doc", "CC BY-SA 4.0"),
    Source("python-dask-doc", "BSD-3-clause", exclude=("*/generated/*",)),
    Source("python-django-doc", "BSD-3-clause"),
    Source("python-flask-doc", "BSD-3-clause"),
    Source("python-hypothesis-doc", "MPL-2.0"),
    Source("python-jinja2-doc", "BSD-3-clause"),
    Source(
        "python-pandas-doc",
        "BSD-3-clause",
        exclude=(
            "*/generated/*",
            "*/reference/api/*",
        ),
    ),
    Source("python-scipy-doc", "BSD-3-clause", exclude=("*/generated/*",)),
    Source("python-scrapy-doc", "BSD-3-clause"),
    Source("python-setuptools-doc", "MIT"),
    Source("python-sklearn-doc", "BSD-3-clause"),
    Source("python-sqlalchemy-doc", "MIT"),
    Source("python-sympy-doc", "BSD-3-clause"),
    Source("python-tornado-doc", "Apache-2.0"),
    Source("python-werkzeug-doc", "BSD-3-clause", ("usr/share/doc/python-werkzeug-doc/html/*.html",)),
    Source("python3-stem-doc", "GPL-3+"),
    Source("python3.11-doc", "PSF-2"),
    Source(
        "qtbase5-doc-html",
        "GFDL 1.3 without invariant sections",
        exclude=("*-members.html", "*-obsolete.html"),
    ),
    Source("qtcreator-doc", "GPL-3 with Qt exception, or GFDL 1.3 without invariant sections"),
    Source(
        "qtdeclarative5-doc-html",
        "GFDL 1.3 without invariant sections",
        exclude=("*-members.html", "*-obsolete.html"),
    ),
    Source("r-doc-html", "GPL-2"),
    Source(
        "racket-doc",
        "LGPL-2.1+",
        (
            "usr/share/doc/racket/guide/*.html",
            "usr/share/doc/racket/reference/*.html",
            "usr/share/doc/racket/more/*.html",
            "usr/share/doc/racket/quick/*.html",
            "usr/share/doc/racket/style/*.html",
            "usr/share/doc/racket/web-server/*.html",
            "usr/share/doc/racket/htdp/*.html",
            "usr/share/doc/racket/plot/*.html",
        ),
    ),
    Source("rsyslog-doc", "GPL-3+ and Apache-2.0"),
    Source("rt5-doc-html", "GPL-2"),
    Source(
        "rust-doc",
        "MIT or Apache-2.0",
        exclude=(
            "*/html/core/*",
            "*/html/alloc/*",
            "*/html/proc_macro/*",
            "*/html/test/*",
            "*/html/std/*",
            "*/html/src/*",
            "*/unstable-book/*",
            "*/first-edition/*",
            "*/second-edition/*",
            "*/2018-edition/*",
            "*/print.html",
        ),
    ),
    Source(
        "sagemath-doc", "CC BY-SA 3.0", ("usr/share/doc/sagemath/html/en/*.html",), exclude=("*/reference/*",)
    ),
    Source("slurm-wlm-doc", "GPL-2+"),
    Source("sphinx-doc", "BSD-2-clause"),
    Source("sqlite3-doc", "public domain", exclude=("*/releaselog/*",)),
    Source("swi-prolog-doc", "BSD-2-clause"),
    Source("swift-doc", "Apache-2.0"),
    Source("tomcat10-docs", "Apache-2.0"),
    Source("twisted-doc", "MIT", exclude=("*/html/api/*",)),
    Source("ubuntu-packaging-guide-html", "CC BY-SA 3.0", exclude=("*/singlehtml/*",)),
    Source("varnish-doc", "BSD-2-clause"),
    Source("xen-doc", "GPL-2 and CC BY 4.0", ("*.html",)),
)
